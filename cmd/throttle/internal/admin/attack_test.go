package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/internal/bubble"
)

// pipes is a network in this process, without the buffers of a kernel, for a bubble of
// virtual time.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     *sync.Once
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{}), new(sync.Once)} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// ask sends a request for a path, and returns what is answered.
func (p pipes) ask(t *testing.T, path string) net.Conn {
	t.Helper()
	c, server := net.Pipe()
	p.accepted <- server
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+readSecret+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return c
}

// streaming serves an admin role in a bubble until its context ends.
func streaming(t *testing.T, test func(t *testing.T, s *server, p pipes)) {
	bubble.Test(t, func(t *testing.T) {
		p := newPipes()
		s, err := newServer(t.Context(), Config{Tokens: tokens}, p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: s.routes(), WriteTimeout: time.Minute}
		var done sync.WaitGroup
		done.Go(func() { _ = h.Serve(p) }) // it ends by Close
		defer s.close(context.Background())
		defer done.Wait()
		defer h.Close()
		defer s.watch.end()
		test(t, s, p)
	})
}

// TestStreamNeverRead: readers of the stream that never read hold up no other, and are let
// go once a write has waited for its time.
func TestStreamNeverRead(t *testing.T) {
	streaming(t, func(t *testing.T, s *server, p pipes) {
		for range maxWatchers - 1 {
			defer p.ask(t, "/api/v1/stream").Close()
		}
		c := p.ask(t, "/api/v1/stream")
		defer c.Close()
		reads := bufio.NewScanner(c)
		for from, n := time.Now(), 0; n < 30; {
			if !reads.Scan() {
				t.Fatalf("the stream that is read ends after %d ticks: %v", n, reads.Err())
			}
			if strings.HasPrefix(reads.Text(), "id: ") {
				n++
				if late := time.Since(from) - time.Duration(n)*time.Second; late != 0 {
					t.Errorf("tick %d comes %v late", n, late)
				}
			}
		}
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		if n := len(s.watch.to); n != 1 {
			t.Errorf("after 30 s there are %d streams, want the one that is read", n)
		}
	})
}

// written counts the bytes that a listener's connections take.
type written struct {
	net.Listener
	n atomic.Int64
}

func (w *written) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writtenTo{c.(*net.TCPConn), &w.n}, nil
}

type writtenTo struct {
	*net.TCPConn
	n *atomic.Int64
}

func (w *writtenTo) Write(p []byte) (int, error) {
	n, err := w.TCPConn.Write(p)
	w.n.Add(int64(n))
	return n, err
}

// TestStreamInKernel: of what a reader does not read the kernel holds little, and not the
// megabytes for which it has room.
func TestStreamInKernel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(t.Context(), Config{Tokens: tokens}, l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(context.Background())
	defer s.watch.end()
	rules := map[string]ticks.Count{}
	for i := range ticks.MostRules {
		rules[strings.Repeat("r", 60)+fmt.Sprint(i)] = ticks.Count{Passed: 1e9}
	}
	for range ticks.Kept {
		s.watch.ring.Add(ticks.Tick{At: time.Now(), Seconds: 1, Rules: rules})
	}
	w := &written{Listener: l}
	h := &http.Server{Handler: s.routes()}
	go func() { _ = h.Serve(&boundedListener{Listener: w}) }() // it ends by Close
	defer h.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+readSecret+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	before := int64(-1)
	for now := w.n.Load(); now == 0 || now != before; now = w.n.Load() {
		before = now
		time.Sleep(300 * time.Millisecond) // in which it writes what there is room for
	}
	if t.Logf("it holds %d bytes", before); before > 1<<20 {
		t.Errorf("for one that reads nothing %d bytes are held, want at most 1 MiB", before)
	}
}

// TestStreamSlowly: one that asks for all ticks that are kept and reads a little now and
// then is let go, too, and resumes behind what it has.
func TestStreamSlowly(t *testing.T) {
	streaming(t, func(t *testing.T, s *server, p pipes) {
		for range ticks.Kept {
			s.watch.ring.Add(ticks.Tick{At: time.Now(), Seconds: 1})
			time.Sleep(time.Second)
		}
		c := p.ask(t, "/api/v1/stream")
		defer c.Close()
		a, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		from, some := time.Now(), make([]byte, 64)
		for {
			if _, err := a.Body.Read(some); err != nil {
				break
			}
			time.Sleep(time.Second)
			if time.Since(from) > 10*time.Minute {
				c.Close()
				t.Fatal("one that reads 64 bytes a second keeps its stream, and all ticks with it")
			}
		}
		if took := time.Since(from); took < catchUpWithin || took > catchUpWithin+sendWithin+time.Second {
			t.Errorf("it is let go after %v, want some %v", took, catchUpWithin)
		}
	})
}

// hostile are texts of callers that are to be read as what they are.
var hostile = map[string]string{
	"elements": `"><img src=x onerror=alert(1)><script>alert(1)</script>`,
	"marks":    "a\u202egro.elpmaxe\u2067\u200b",
	"a NUL":    "a\x00b\r\nSet-Cookie: x=y",
	"a MB":     strings.Repeat("k", 1<<20),
}

// values are those of fields and attributes, which keep what was typed.
var values = regexp.MustCompile(`(?s)<textarea.*?</textarea>|="[^"]*"`)

// unseen are characters that a page may not show, as they hide or turn what is beside them.
const unseen = "\u202e\u2067\u200b\x00"

// TestPageHostileFields: whatever is sent to the views and forms of the page comes back as
// text, if at all, in an answer of bounded size, and is the fault of its sender.
func TestPageHostileFields(t *testing.T) {
	v := deciding(t, true).visit(writeSecret)
	for name, text := range hostile {
		for _, path := range append(pages, "/do/raise", "/do/block", "/do/exempt", "/do/forgive", "/do/rollback", "/do/reload", "/do/kill", "/do/none") {
			all := url.Values{}
			var pairs []string
			for _, field := range []string{"rule", "key", "by", "from", "to", "done", "why", "for", "other", "entry", "version", "times", "limits", "text", "method", "host", "path", "address", "client", "header", "back", "sure"} {
				all.Set(field, text)
				pairs = append(pairs, field, text)
			}
			got := []answer{v.submit(path, pairs...), v.submit(path, "rule", "client", "key", text, "text", text, "why", "x", "for", "1h", "times", "2", "header", "X-A: "+text, "path", text, "entry", text)}
			if name != "a MB" && !strings.HasPrefix(path, "/do/") {
				got = append(got, v.open(path+"?"+all.Encode()))
			}
			for i, a := range got {
				shown := ""
				if strings.ContainsAny(a.body, unseen) {
					shown = values.ReplaceAllString(a.body, "")
				}
				if a.status >= 500 || strings.Contains(a.body, "<img") || strings.Contains(a.body, "<script>") || strings.ContainsAny(shown, unseen) || len(a.header.Values("Set-Cookie")) > 0 || len(a.body) > 3<<20 {
					t.Errorf("%s with %s, request %d: %d with %d bytes: %.300s", path, name, i, a.status, len(a.body), tag.ReplaceAllString(values.ReplaceAllString(a.body, ""), ""))
				}
			}
		}
	}
	if a := v.open("/"); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// unfilled are the parts of a page that would be empty without its script.
var unfilled = regexp.MustCompile(`<[^>]* data-(n|of|reason|top|until|ago|left)[= >][^>]*></`)

// TestPageWithoutScript: each view can be read, and used, as the server sends it.
func TestPageWithoutScript(t *testing.T) {
	v := deciding(t, true).visit(writeSecret)
	for path, want := range map[string]string{
		"/": "Decisions by reason", "/rules": "5/h by client", "/who?rule=client&by=refused": "c/0", "/who?rule=client&key=c%2F0": "0 of 5",
		"/try": "Header, a field a line", "/whatif": "The rule, as JSON", "/versions": "Kept by this instance", "/events": "The latest events",
	} {
		a := v.open(path)
		if a.status != 200 || !strings.Contains(a.body, want) {
			t.Errorf("GET %s: %d, without %q", path, a.status, want)
		}
		if empty := unfilled.FindString(a.body); empty != "" {
			t.Errorf("GET %s leaves %s to the script", path, empty)
		}
		inside := 0 // buttons in forms that go somewhere
		for _, form := range strings.Split(a.body, "<form")[1:] {
			form, _, _ = strings.Cut(form, "</form>")
			if head, _, _ := strings.Cut(form, ">"); !strings.Contains(head, ` method="`) || !strings.Contains(head, ` action="/`) {
				t.Errorf("GET %s: a form goes nowhere:%s", path, head)
			}
			inside += strings.Count(form, "<button")
		}
		if all := strings.Count(a.body, "<button"); all != inside || strings.Contains(a.body, `href="#"`) || strings.Contains(a.body, `href="javascript`) {
			t.Errorf("GET %s: %d of %d buttons are in forms", path, inside, all)
		}
	}
	for path, c := range map[string]struct {
		want  string
		pairs []string
	}{
		"/try":    {"Would be refused", []string{"method", "GET", "path", "/", "client", "c/0"}},
		"/whatif": {fmt.Sprintf("of %d requests", 22), []string{"rule", "client", "text", `{"name": "client", "key": "client", "limits": "10/h"}`}},
	} {
		if a := v.submit(path, c.pairs...); a.status != 200 || !strings.Contains(tag.ReplaceAllString(a.body, ""), c.want) {
			t.Errorf("POST %s: %d, without %q", path, a.status, c.want)
		}
	}
}
