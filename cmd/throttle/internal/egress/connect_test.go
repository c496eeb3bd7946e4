package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// authority makes one for hosts, and returns its directory.
func authority(t *testing.T, hosts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	key, err := intercept.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := intercept.NewCertificate(key, hosts, time.Now())
	if err := errors.Join(err, intercept.WriteKey(dir, key), intercept.WriteCertificate(dir, c, nil)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// intercepting serves a Proxy in front of an API by TLS, on 127.0.0.1.
func intercepting(t *testing.T, c Config, a API, api http.Handler) (*engine, *httptest.Server) {
	t.Helper()
	p, s := interceptor(t, c, a, api)
	return run(t, p), s
}

// interceptor is a Proxy that does not serve yet.
func interceptor(t *testing.T, c Config, a API, api http.Handler) (p *Proxy, s *httptest.Server) {
	t.Helper()
	s = httptest.NewUnstartedServer(api)
	s.EnableHTTP2, s.Config.DisableGeneralOptionsHandler = true, true
	s.StartTLS()
	t.Cleanup(s.Close)
	a.URL = s.URL
	c.APIs, c.Intercept.CA = map[string]API{"api": a}, authority(t, "127.0.0.1")
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []*throttlehttp.Transport{p.apis[0].plain, p.apis[0].upgrades} {
		to.Base.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	}
	if err := p.Load(time.Now()); err != nil {
		t.Fatal(err)
	}
	return p, s
}

// client uses the proxy for https, and trusts its authority.
func (e *engine) client(http2 bool) *http.Client {
	proxy, err := url.Parse(e.url)
	if err != nil {
		e.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(e.connects.Authority.Certificate())
	t := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
	e.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// TestIntercept: requests inside CONNECT are paced and retried as those by path, and answers
// have the field of the API alone.
func TestIntercept(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		api := &turns{all: []http.HandlerFunc{status(429, "Retry-After", "0"), status(503), status(200, "X-Own", "yes")}}
		e, s := intercepting(t, Config{Intercept: new(Intercept)}, API{}, api)
		answer, err := e.client(http2).Get(s.URL + "/x?y=z")
		if err != nil {
			t.Fatal(err)
		}
		a := e.read(answer)
		if want := "GET /x?y=z"; a.StatusCode != 200 || a.ProtoMajor == 2 != http2 || a.Header.Get("X-Own") != "yes" || a.mark() != "" || len(api.requests()) != 3 || api.requests()[2] != want {
			t.Errorf("HTTP/2 %t: %+v, after %q; want 200 after three of %q", http2, a, api.requests(), want)
		}
	}
}

// TestConnectClients: programs that set nothing but the proxy and the authority see no
// refusal of an API that refuses what is above 5 a second.
func TestConnectClients(t *testing.T) {
	const urllib = `
import os, sys, ssl, urllib.request, concurrent.futures
def call(i):
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/%d" % i, data=b"x" if i % 2 else None)) as a:
        return a.status
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    for status in pool.map(call, range(10)):
        print(status)
`
	for name, args := range map[string][]string{
		"curl, HTTP/1.1": {"curl", "-sS", "--http1.1", "-o", "/dev/null", "-w", "%{http_code}\n", "--parallel", "--parallel-max", "5", "URL/[1-10]"},
		"curl, HTTP/2":   {"curl", "-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code}\n", "--parallel", "--parallel-max", "5", "URL/[1-10]"},
		"urllib":         {"python3", "-c", urllib, "URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clitest.Program(t, args[0])
			api := newFivePerSecond(throttlehttp.Draft)
			e, s := intercepting(t, Config{Intercept: new(Intercept)}, API{}, api)
			words := append(args[:len(args)-1:len(args)-1], strings.Replace(args[len(args)-1], "URL", s.URL, 1))
			cmd := command(t, words...)
			pem := filepath.Join(e.cfg.Intercept.CA, intercept.CertificateFile)
			cmd.Env = append(cmd.Env, "NO_PROXY=", "https_proxy="+e.url, "HTTPS_PROXY="+e.url, "SSL_CERT_FILE="+pem, "CURL_CA_BUNDLE="+pem)
			out, err := cmd.CombinedOutput()
			if n := strings.Count(string(out), "200\n"); err != nil || n != 10 || api.served.Load() != 10 {
				t.Errorf("%v; %d of 10 were answered 200, the API served %d, refused %d:\n%s", err, n, api.served.Load(), api.refused.Load(), out)
			}
		})
	}
}

// TestConnectDrain: at the end of the drain a request inside CONNECT that waits is answered
// 503, one in flight 504, and a tunnel is cut.
func TestConnectDrain(t *testing.T) {
	in := make(chan struct{})
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	e, s := intercepting(t,
		Config{Intercept: &Intercept{Tunnel: []string{far.Addr().String()}}, Drain: Drain{Timeout: 50 * time.Millisecond}},
		API{Rate: limit.Limit{Count: 1, Period: time.Minute}, MaxWait: time.Hour},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			in <- struct{}{}
			<-r.Context().Done()
		}))
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: a\r\n\r\n", far.Addr())
	up, err := far.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	var group sync.WaitGroup
	answers := make([]seen, 2)
	send := func(i int, body string) func() {
		return func() {
			answer, err := e.client(i == 1).Post(s.URL, "", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = e.read(answer)
		}
	}
	group.Go(send(0, "x"))
	<-in
	group.Go(send(1, "y"))
	throttles, _ := e.Observed("api")
	for waits := 0; waits == 0; {
		for _, t := range throttles.All() {
			waits = t.Waiting()
		}
	}
	if err := e.end(); err == nil || !strings.Contains(err.Error(), "2 requests were there still") {
		t.Errorf("Serve returned %v", err)
	}
	group.Wait()
	if answers[0].Response == nil || answers[1].Response == nil || answers[0].StatusCode != 504 || answers[1].StatusCode != 503 || answers[1].mark() != "ending" {
		t.Errorf("answered %+v, want 504 and 503", answers)
	}
	if _, err := io.Copy(io.Discard, up); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// tunnelled serves a Proxy that tunnels to a far end, and connects both.
func tunnelled(t *testing.T) (e *engine, near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, _ = intercepting(t, Config{Intercept: &Intercept{Tunnel: []string{l.Addr().String()}}, Drain: Drain{Timeout: 20 * time.Second}}, API{}, status(200))
	if near, err = net.Dial("tcp", strings.TrimPrefix(e.url, "http://")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	fmt.Fprintf(near, "CONNECT %s HTTP/1.1\r\nHost: a\r\n\r\n", l.Addr())
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	const answer = "HTTP/1.1 200 Connection Established\r\n\r\n"
	text := make([]byte, len(answer))
	if _, err := io.ReadFull(near, text); err != nil || string(text) != answer {
		t.Fatalf("%q, %v", text, err)
	}
	return e, near, far
}

// TestTunnelHalfClosed: what a far end says is followed by its end, while the caller may still
// send.
func TestTunnelHalfClosed(t *testing.T) {
	_, near, far := tunnelled(t)
	fmt.Fprint(far, "all")
	if err := far.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(near); err != nil || string(text) != "all" {
		t.Errorf("the caller got %q, %v", text, err)
	}
	fmt.Fprint(near, "later")
	if err := near.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(far); err != nil || string(text) != "later" {
		t.Errorf("the far end got %q, %v", text, err)
	}
}

// TestTunnelDrains: a tunnel in which something moves goes on in a drain, which ends with it.
func TestTunnelDrains(t *testing.T) {
	e, near, far := tunnelled(t)
	ended := make(chan error, 1)
	go func() { ended <- e.end() }()
	one := make([]byte, 1)
	for began := time.Now(); time.Since(began) < 100*time.Millisecond || !e.draining.Load(); {
		fmt.Fprint(near, "x")
		if _, err := far.Read(one); err != nil {
			t.Fatalf("after %v of the drain: %v", time.Since(began), err)
		}
	}
	near.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestConnectDrains: a drain without requests does not wait for a tunnel in which nothing
// moves, nor for connections that idle.
func TestConnectDrains(t *testing.T) {
	e, s := intercepting(t, Config{Intercept: new(Intercept), Drain: Drain{Timeout: time.Hour}}, API{}, status(200))
	answer, err := e.client(true).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	e.read(answer)
	if err := e.end(); err != nil {
		t.Error(err)
	}
}

// TestBadIntercept: what is wrong with an interception is a Flaw with its place.
func TestBadIntercept(t *testing.T) {
	apis := map[string]API{"a": {URL: "https://api.example.com/v1"}, "b": {URL: "https://other.example.com:8443"}, "c": {URL: "http://plain.example.com"}}
	for _, c := range []struct {
		i          Intercept
		path, want string
	}{
		{Intercept{Hosts: []string{"api.example.com", "plain.example.com"}}, "intercept.hosts[1]", "plain.example.com: is the host of no API by https; they are api.example.com, other.example.com:8443"},
		{Intercept{Hosts: []string{"other.example.com"}}, "intercept.hosts[0]", "is the host of no API"},
		{Intercept{Hosts: []string{"co.uk"}}, "intercept.hosts[0]", "co.uk: is a public suffix, below which anyone may have a host; write the host of the API, as api.example.com"},
		{Intercept{Hosts: []string{"https://api.example.com"}}, "intercept.hosts[0]", "without https://"},
		{Intercept{Tunnel: []string{"ok.example", "10.0.0.1/8"}}, "intercept.tunnel[1]", "want a network"},
		{Intercept{CA: filepath.Join(t.TempDir(), "none")}, "intercept.ca", "/none -hosts api.example.com,other.example.com'"},
		{Intercept{CA: authority(t, "api.example.com")}, "intercept.ca", "does not permit other.example.com; run 'throttle ca -renew"},
		{Intercept{CA: authority(t, "api.example.com"), Hosts: []string{"API.example.com:443"}}, "", ""},
		{Intercept{CA: authority(t, "api.example.com", "other.example.com")}, "", ""},
	} {
		p, err := New(Config{APIs: apis, Intercept: &c.i})
		if err == nil {
			err = p.Load(time.Now())
		}
		flaw := (*Flaw)(nil)
		if c.path == "" && err != nil || c.path != "" && (!errors.As(err, &flaw) || flaw.Path != c.path || !strings.Contains(flaw.What, c.want)) {
			t.Errorf("%+v: %v, want %s: %s", c.i, err, c.path, c.want)
		}
	}
	if _, err := New(Config{APIs: map[string]API{"c": apis["c"]}, Intercept: new(Intercept)}); err == nil || !strings.Contains(err.Error(), "no API has an https URL") {
		t.Errorf("nothing by https: %v", err)
	}
}

// TestBadConnectFlags: the same on the command line; the authority is looked for before the
// socket is opened.
func TestBadConnectFlags(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	open := authority(t, "h")
	if err := os.Chmod(filepath.Join(open, intercept.KeyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"-to https://h -tunnel x":                               "egress: -tunnel is for -intercept or -ca, which are missing",
		"-to https://h -intercept x -ca " + none:                "egress: -intercept: x: is the host of no API by https; they are h",
		"-to https://com -ca " + none:                           "egress: -ca: com: is a public suffix",
		"-to http://h -ca " + none:                              "egress: -ca: no API has an https URL",
		"-to http://h -intercept h -ca " + none:                 "egress: -intercept: no API has an https URL",
		"-to https://h -intercept h -ca " + none:                "egress: -ca: there is no CA in " + none + "; run 'throttle ca -dir " + none + " -hosts h'",
		"-to https://h -ca " + open:                             "egress: -ca: " + open + "/ca.key: others than its owner may use it (mode 0644)",
		"-to https://h -ca " + none + " -tunnel ok.example,a/b": "egress: -tunnel: a/b: want a network",
	} {
		if _, errs, code := clitest.Play(t.Context(), Run, strings.Fields(in)...); code != 2 || !strings.HasPrefix(errs, "throttle: "+want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("throttle egress %s: code %d\ngot  %swant throttle: %s", in, code, errs, want)
		}
	}
}

// TestReload: SIGHUP reads an authority again that was made for more hosts.
func TestReload(t *testing.T) {
	dir := authority(t, "api.example.com")
	p, err := New(Config{APIs: map[string]API{"a": {URL: "https://api.example.com"}}, Intercept: &Intercept{CA: dir}})
	if err := errors.Join(err, p.Load(time.Now())); err != nil {
		t.Fatal(err)
	}
	before := p.connects.Authority.Certificate()
	key, err := intercept.ReadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := intercept.NewCertificate(key, []string{"api.example.com", "more.example.com"}, time.Now())
	if err := errors.Join(err, intercept.WriteCertificate(dir, c, nil), p.reload()(t.Context())); err != nil {
		t.Fatal(err)
	}
	if after := p.connects.Authority.Certificate(); after.Equal(before) || !after.Equal(c) {
		t.Error("the new certificate is not in use")
	}
	if text := p.status("127.0.0.1:8090"); !strings.Contains(text, ", HTTPS_PROXY=http://127.0.0.1:8090 for api.example.com; page ") {
		t.Errorf("it says %s", text)
	}
}
