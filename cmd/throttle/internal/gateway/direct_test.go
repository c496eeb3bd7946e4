package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// answering is a RoundTripper that notes the request as it would be written.
type answering struct {
	answer func() *http.Response
	seen   string
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent strings.Builder
	if err := r.Write(&sent); err != nil {
		return nil, err
	}
	a.seen = sent.String()
	return a.answer(), nil
}

// TestDirectIsReverseProxy: what a request without a body is on its way, and what its
// answer is, by direct and by httputil.ReverseProxy.
func TestDirectIsReverseProxy(t *testing.T) {
	requests := map[string]func(r *http.Request){
		"plain": func(*http.Request) {},
		"hop by hop": func(r *http.Request) {
			set(r.Header, "Proxy-Connection: x", "Keep-Alive: x", "Proxy-Authorization: x", "Proxy-Authenticate: x", "Trailer: x", "Transfer-Encoding: chunked", "Te: gzip")
		},
		"trailers": func(r *http.Request) { set(r.Header, "Te: gzip, Trailers") },
		"forwarded": func(r *http.Request) {
			set(r.Header, "Forwarded: for=x", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Host: x", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X-Real-Ip: 6.6.6.6")
		},
		"two of each": func(r *http.Request) {
			set(r.Header, "X-Forwarded-Host: x", "X-Forwarded-Host: y", "Cookie: a", "Cookie: b", "User-Agent: z")
		},
		"query":         func(r *http.Request) { r.URL.RawQuery = "a=%20b&c" },
		"unread query":  func(r *http.Request) { r.URL.RawQuery = "q=100%&a=1;b=2&%zz" },
		"absolute":      func(r *http.Request) { r.URL.Scheme, r.URL.Host, r.Host = "https", "other", "h:80" },
		"escaped":       func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2Fb" },
		"close, method": func(r *http.Request) { r.Close, r.Method = true, "DELETE" },
		"trailer":       func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
	}
	answers := map[string]func(*http.Response){
		"plain": func(*http.Response) {},
		"hop by hop": func(a *http.Response) {
			set(a.Header, "Connection: x-secret , ,close", "X-Secret: s", "Keep-Alive: x", "Upgrade: x", "Proxy-Authenticate: x", "Te: x", "Trailer: x", "Transfer-Encoding: x")
		},
		"own fields": func(a *http.Response) {
			set(a.Header, "Ratelimit: up", "Ratelimit-Policy: up", "Retry-After: 1", "Set-Cookie: a", "Set-Cookie: b")
		},
		"stream":      func(a *http.Response) { a.Header.Set("Content-Type", "text/event-stream; charset=utf-8") },
		"no length":   func(a *http.Response) { a.ContentLength = -1 },
		"announced":   func(a *http.Response) { a.Trailer = http.Header{"X-End": {"1", "2"}} },
		"unannounced": func(a *http.Response) { a.Body = &ending{a.Body, a} },
		"switched":    func(a *http.Response) { a.StatusCode = 101 },
		"none":        func(a *http.Response) { a.StatusCode, a.Body = 204, http.NoBody },
	}
	for name, change := range requests {
		if got, want := passed(t, change, answers["plain"], true), passed(t, change, answers["plain"], false); got != want {
			t.Errorf("request, %s:\n%s\nwant what ReverseProxy does:\n%s", name, got, want)
		}
	}
	for name, answer := range answers {
		if got, want := passed(t, requests["plain"], answer, true), passed(t, requests["plain"], answer, false); got != want {
			t.Errorf("answer, %s:\n%s\nwant what ReverseProxy does:\n%s", name, got, want)
		}
	}
}

// TestDirectOverServers: between real connections too, an answer by direct is that by
// httputil.ReverseProxy, which serves what asks for an upgrade.
func TestDirectOverServers(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch h := w.Header(); r.URL.Path {
		case "/early":
			h.Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			h.Del("Link")
			h.Set("X-Late", "late")
		case "/head":
			h.Set("Content-Length", "1000")
			return
		case "/cut":
			io.WriteString(w, "some")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/trailers":
			h["Trailer"] = []string{"X-One", "X-Two"}
			defer func() { h["X-One"], h["X-Two"] = []string{"1"}, []string{"2", "3"} }()
		}
		io.WriteString(w, "some")
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	seen := func(method, path string, fields ...string) string {
		text := ""
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			text += fmt.Sprint(status, sorted(http.Header(h)))
			return nil
		}})
		r := e.request(method, path, nil).WithContext(ctx)
		set(r.Header, fields...)
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		a.Header.Del("Date")
		return fmt.Sprintf("%s %d %d %q %q %v %q", text, a.StatusCode, a.ContentLength, sorted(a.Header), body, err, sorted(a.Trailer))
	}
	for path, want := range map[string]string{
		"GET /early": "103 [Link=", "HEAD /head": " 200 1000 ", "GET /cut": `"some" unexpected EOF`, "GET /trailers": `["X-One=[\"1\"]" "X-Two=[\"2\" \"3\"]"]`,
	} {
		method, path, _ := strings.Cut(path, " ")
		got, bare := seen(method, path), seen(method, path, "Connection: Upgrade", "Upgrade: websocket")
		if got != bare || !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant what ReverseProxy does, %s, with %s", path, got, bare, want)
		}
	}
}

// TestEncodedPath: a path is as the caller wrote it, but for what no path may have, which is
// encoded: an encoded slash remains one.
func TestEncodedPath(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
	for _, base := range []string{"", "/base"} {
		e := serve(t, Config{Routes: []Route{{To: []string{to + base}}}})
		for path, want := range map[string]string{
			"/a/%2fb%20c": "", "/[a]%2F(b);c": "", "/a%7Cb": "", "/a|b": "/a%7Cb", "/a|b%2Fc": "/a%7Cb%2Fc",
			"/{a}%2F%3F": "/%7Ba%7D%2F%3F", "/caf\xc3\xa9%2fx": "/caf%C3%A9%2fx", "/\xff%2F\"": "/%FF%2F%22",
		} {
			if _, got := e.raw(lines("GET "+path+" HTTP/1.1", "Host: h")); got != base+cmp.Or(want, path) {
				t.Errorf("%q, behind %q: the service gets %q, want %q", path, base, got, base+cmp.Or(want, path))
			}
		}
	}
}

// TestTrailersOfLength: in HTTP/2 an answer may have a length and trailers. Callers of HTTP/1.1
// get these in chunks; an answer to HEAD keeps its length.
func TestTrailersOfLength(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Length", "4")
		io.WriteString(w, "some")
		w.Header().Set("X-Sum", "7")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	e := serve(t, Config{Routes: []Route{{To: []string{strings.Replace(s.URL, "http:", "h2c:", 1)}}}})
	for method, want := range map[string]string{"GET": "some 7", "POST": "some 7", "HEAD": "4"} {
		r := e.request(method, "/", nil)
		if method == "POST" {
			r = e.request(method, "/", strings.NewReader("body"))
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		got := string(body) + " " + a.Trailer.Get("X-Sum")
		if method == "HEAD" {
			got = a.Header.Get("Content-Length")
		}
		if got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", method, got, err, want)
		}
	}
}

// TestUntyped: an answer without a Content-Type gets none, whatever its body looks like.
func TestUntyped(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		io.WriteString(w, "<html><script>")
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	defer two.CloseIdleConnections()
	for _, sender := range []http.RoundTripper{http.DefaultTransport, two} {
		for _, r := range []*http.Request{e.request("GET", "/", nil), e.request("POST", "/", strings.NewReader("body"))} {
			a, err := sender.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if got, ok := a.Header["Content-Type"]; ok {
				t.Errorf("%s %s: Content-Type %q, want none", a.Proto, r.Method, got)
			}
		}
	}
}

// passed is a request as the upstream sees it, and its answer as the caller does.
func passed(t *testing.T, change func(*http.Request), answer func(*http.Response), direct bool) string {
	t.Helper()
	to := &answering{answer: func() *http.Response {
		a := &http.Response{StatusCode: 200, ContentLength: 4, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("body"))}
		answer(a)
		return a
	}}
	g, err := New(Config{Listen: []Listen{{Addr: ":0"}}, Routes: []Route{{To: []string{"http://127.0.0.1:1/base"}}}})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := upstream.New([]string{"http://127.0.0.1:1/base"}, upstream.Options{Transport: to})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/some/path?q=1", nil)
	r.Body = http.NoBody
	change(r)
	w := httptest.NewRecorder()
	w.Header().Set("Ratelimit", "ours")
	x := &exchange{ResponseWriter: w, g: g, route: (*g.routes.Load())[0], pool: pool, client: netip.MustParseAddr("192.0.2.1"), peer: netip.MustParseAddr("192.0.2.9")}
	x.carried.x = x
	x.carried.Context, x.cancel = context.WithCancel(r.Context())
	defer x.cancel()
	x.own.keep(w.Header())
	if direct {
		x.direct(r.WithContext(&x.carried))
	} else {
		g.reverse.ServeHTTP(x, r.WithContext(&x.carried))
	}
	a := w.Result()
	defer a.Body.Close()
	return fmt.Sprint(to.seen, a.StatusCode, w.Flushed, sorted(a.Header), w.Body, sorted(a.Trailer))
}

func set(h http.Header, fields ...string) {
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
}

func sorted(h http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, fmt.Sprintf("%s=%q", name, h[name]))
	}
	return all
}

// ending is a body whose trailer nobody has announced.
type ending struct {
	io.ReadCloser
	of *http.Response
}

func (e *ending) Close() error {
	e.of.Trailer = http.Header{"X-End": {"late"}}
	return e.ReadCloser.Close()
}

// TestSimple: what direct leaves to ReverseProxy.
func TestSimple(t *testing.T) {
	if !simple(httptest.NewRequest("GET", "/?a;b=%", nil)) {
		t.Error("a request of nothing but its header is left to ReverseProxy")
	}
	for name, change := range map[string]func(*http.Request){
		"body": func(r *http.Request) { r.ContentLength = 1 }, "chunks": func(r *http.Request) { r.ContentLength = -1 },
		"upgrade": func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, "connection": func(r *http.Request) { r.Header.Set("Connection", "x") },
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if change(r); simple(r) {
			t.Errorf("%s: is not left to ReverseProxy", name)
		}
	}
}
