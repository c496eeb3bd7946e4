package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

const child = "THROTTLE_EGRESS_CHILD" // runs the command in place of the tests

func TestMain(m *testing.M) {
	if os.Getenv(child) == bare {
		serveBare()
	}
	if args := os.Getenv(child); args != "" {
		if err := Run(context.Background(), strings.Fields(args), nil, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// timed are the latencies of calls, one after the other on each connection.
func timed(t *testing.T, url string, conns int, d time.Duration) (p50, p99 time.Duration) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: conns}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	end := time.Now().Add(d)
	for range conns {
		group.Go(func() {
			var own []time.Duration
			for began := time.Now(); began.Before(end); began = time.Now() {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				a, err := transport.RoundTrip(r)
				if err != nil || a.StatusCode != 200 {
					t.Errorf("%s: %v, %v", url, a, err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	group.Wait()
	slices.Sort(all)
	if len(all) == 0 {
		t.Fatal("no call")
	}
	return all[len(all)/2], all[len(all)*99/100]
}

// TestSoakAdded: what the proxy adds to a call that need not wait, beside a bare
// ReverseProxy, in turns.
func TestSoakAdded(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: what the proxy adds to a call, a minute; make soak runs it")
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello, world\n") }))
	defer s.Close()
	to, _ := url.Parse(s.URL)
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, BufferPool: new(buffers), Transport: &http.Transport{MaxIdleConnsPerHost: 256},
	})
	defer bare.Close()
	e := serve(t, Config{APIs: map[string]API{"api": {URL: s.URL}}})
	urls := map[string]string{"bare": bare.URL, "bare again": bare.URL, "egress": e.url + "/api/"}
	for _, conns := range []int{1, 16} {
		timed(t, urls["egress"], conns, 2*time.Second) // the first calls learn that there is no limit
		p50s, p99s := map[string][]time.Duration{}, map[string][]time.Duration{}
		for range 7 {
			for name, at := range urls {
				p50, p99 := timed(t, at, conns, time.Second)
				p50s[name], p99s[name] = append(p50s[name], p50), append(p99s[name], p99)
			}
		}
		for name := range urls {
			slices.Sort(p50s[name])
			slices.Sort(p99s[name])
			t.Logf("%d at a time, %-10s  p50 %v  p99 %v", conns, name, p50s[name][3].Round(time.Microsecond), p99s[name][3].Round(time.Microsecond))
		}
		if added := p50s["egress"][3] - p50s["bare"][3]; conns == 1 && added > 150*time.Microsecond {
			t.Errorf("the proxy adds %v to the p50, want at most 150µs", added)
		}
	}
}

const bare = "bare" // the child is a net/http server in which requests wait

// serveBare serves until the process is killed.
func serveBare() {
	var waiting atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "http://%s/api/\n", l.Addr())
	log.Fatal(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/x" {
			fmt.Fprint(w, waiting.Load()-1)
			return
		}
		waiting.Add(1)
		<-r.Context().Done()
	})))
}

// TestManyWait: 2,000 callers wait in line, by path and inside CONNECT, and take little
// memory beside what a bare net/http server takes.
func TestManyWait(t *testing.T) {
	plain, secure := httptest.NewServer(status(200)), httptest.NewUnstartedServer(status(200))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the program does not trust it; its callers wait all the same
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	const request = "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer 0123456789012345678901234567890123456789\r\nUser-Agent: many\r\nAccept: */*\r\n\r\n"
	byPath := func(c net.Conn) { fmt.Fprintf(c, request, "/api/x", "localhost") }
	t.Run("bare net/http", func(t *testing.T) { manyWait(t, bare, 50, byPath) })
	to := func(s *httptest.Server) string {
		return "-to api=" + s.URL + " -rate 1/m -wait 100h -listen " + clitest.Vacant(t)
	}
	t.Run("by path", func(t *testing.T) { manyWait(t, to(plain), 60, byPath) })
	t.Run("inside CONNECT", func(t *testing.T) {
		ca, host := authority(t, "127.0.0.1"), secure.Listener.Addr().String()
		roots, _ := os.ReadFile(filepath.Join(ca, intercept.CertificateFile))
		trust := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
		trust.RootCAs.AppendCertsFromPEM(roots)
		manyWait(t, to(secure)+" -ca "+ca, 125, func(c net.Conn) {
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", host)
			a, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
			if err != nil || a.StatusCode != 200 {
				t.Fatal(a, err)
			}
			fmt.Fprintf(tls.Client(c, trust), request, "/x", host)
		})
	})
}

// manyWait has 2,000 callers wait in a child, each of which sends its request by call: it may
// have most MB of memory then.
func manyWait(t *testing.T, args string, most float64, call func(net.Conn)) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(cmd.Environ(), child+"="+args)
	errs, err := cmd.StderrPipe()
	if err != nil || cmd.Start() != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	lines := bufio.NewScanner(errs)
	lines.Scan()
	at := regexp.MustCompile(`http://([^/]+)/api/`).FindStringSubmatch(lines.Text())
	if at == nil {
		t.Fatalf("it said %q", lines.Text())
	}
	go io.Copy(io.Discard, errs) // until the program ends
	before := taken(t, cmd.Process.Pid)
	const callers = 2000
	for range callers {
		c, err := net.Dial("tcp", at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		call(c)
	}
	for text := ""; !strings.Contains(text, fmt.Sprint(callers-1)); {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+at[1]+"/throttle/state.json", nil)
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if text = string(body); t.Context().Err() != nil {
			t.Fatal(text)
		}
		time.Sleep(20 * time.Millisecond) // as what the answers to this leave behind counts too
	}
	after := taken(t, cmd.Process.Pid)
	t.Logf("%d callers wait: %.1f MB, %.1f MB before", callers, after, before)
	if after > most*raceMemory {
		t.Errorf("it takes %.1f MB, want at most %.0f", after, most*raceMemory)
	}
}

// taken is what a process has resident besides its file, in MB.
func taken(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no RssAnon in %s", text)
	}
	kB, _ := strconv.Atoi(string(found[1]))
	return float64(kB) / 1000
}
