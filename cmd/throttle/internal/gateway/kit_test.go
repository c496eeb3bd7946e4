package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// engine is a Gateway that serves on loopback.
type engine struct {
	*Gateway
	t    *testing.T
	addr string
	// end ends its context and returns what Serve returned.
	end func() error
}

// serve serves c, with a socket of its own if c has none.
func serve(t *testing.T, c Config) *engine {
	t.Helper()
	if len(c.Listen) == 0 {
		c.Listen = []Listen{{Addr: "127.0.0.1:0"}}
	}
	if c.Drain.Timeout == 0 {
		c.Drain.Timeout = 5 * time.Second
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, g)
}

// run has a Gateway serve.
func run(t *testing.T, g *Gateway) *engine {
	t.Helper()
	sockets, err := g.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.serveOn(ctx, sockets) }()
	e := &engine{Gateway: g, t: t, addr: sockets[0].Addr().String()}
	e.end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			return fmt.Errorf("Serve does not end")
		}
	})
	t.Cleanup(func() { e.end() })
	return e
}

// service starts a service and returns its URL.
func service(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// control compiles rules.
func control(t testing.TB, text string) *admit.Control {
	t.Helper()
	compiled, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(compiled)
	return &admit.Control{Rules: live}
}

func network(t *testing.T, text string) rules.Networks {
	t.Helper()
	return rules.Networks{netip.MustParsePrefix(text)}
}

// raw sends bytes and returns the status of the answer, and its body.
func (e *engine) raw(text string) (int, string) {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		e.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		e.t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	body, _ := io.ReadAll(a.Body) // an answer may have been cut, which is for the test to see
	return a.StatusCode, string(body)
}

// lines joins the lines of a header.
func lines(all ...string) string { return strings.Join(all, "\r\n") + "\r\n\r\n" }

// header lists fields of a request as a service saw them.
func header(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			if v, ok := r.Header[name]; ok {
				fmt.Fprintf(w, "%s=%s;", name, strings.Join(v, "|"))
			}
		}
	}
}

// h2cService starts a service that reads bodies, by HTTP/2 in plain text, and
// returns its URL.
func h2cService(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1)
}
