//go:build unix

package gateway

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// fronts are proxies in front of a gateway. They mark each request that they pass on,
// and state its address and its customer.
var fronts = map[string]func(t *testing.T, to string) *proxy{
	"nginx": func(t *testing.T, to string) *proxy {
		addr, dir, file := vacant(t, func(addr, dir string) string {
			return fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/log crit; worker_processes 1;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
 upstream u { server %[2]s; keepalive 4; }
 server { listen %[3]s; underscores_in_headers on; ignore_invalid_headers off; client_header_timeout 2s; client_body_timeout 2s; lingering_close off;
  location / { proxy_http_version 1.1; proxy_request_buffering off; proxy_set_header Connection ""; proxy_set_header Host $host;
   proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Customer alice; proxy_set_header X-Mark $request_id; proxy_pass http://u; } } }`, dir, to, addr)
		})
		return program(t, "nginx", []string{cmp.Or(os.Getenv("NGINX"), "nginx")}, addr, "-p", dir, "-c", file, "-e", filepath.Join(dir, "log"))
	},
	"haproxy": func(t *testing.T, to string) *proxy {
		addr, _, file := vacant(t, func(addr, _ string) string {
			return fmt.Sprintf(`defaults
 mode http
 timeout connect 2s
 timeout client 2s
 timeout server 10s
 timeout http-request 2s
frontend f
 bind %s
 http-request set-header X-Mark %%[uuid()]
 http-request set-header X-Customer alice
 option forwardfor
 default_backend b
backend b
 http-reuse always
 server s %s
`, addr, to)
		})
		return program(t, "haproxy", []string{cmp.Or(os.Getenv("HAPROXY"), "haproxy")}, addr, "-f", file, "-db")
	},
}

// marked are the requests that were seen, by the mark of the front.
type marked struct {
	mu   sync.Mutex
	seen map[string]int
	bad  []string
}

func (m *marked) see(mark, what string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[string]int{}
	}
	m.seen[mark]++
	if !ok || mark == "" || strings.Contains(mark, "forged") || m.seen[mark] > 1 {
		m.bad = append(m.bad, mark+" "+what)
	}
}

// TestBehindProxies: of requests whose end or whose sender is doubtful, behind nginx and
// HAProxy that share connections between callers, each that the gateway or the service
// sees is one that the proxy passed on, with its address and its customer.
func TestBehindProxies(t *testing.T) {
	for name, start := range fronts {
		t.Run(name, func(t *testing.T) {
			var decided, served marked
			to := service(t, func(_ http.ResponseWriter, r *http.Request) {
				h := r.Header
				served.see(strings.Join(h["X-Mark"], "|"), fmt.Sprint(r.Method, r.URL, h), fmt.Sprint(h["X-Customer"], h["X-Real-Ip"]) == "[alice] [127.0.0.2]")
				io.Copy(io.Discard, r.Body)
			})
			limiter := control(t, `{"rules": {"name": "a", "key": "address", "limits": "1000000/s"}}`)
			limiter.OnEvent = func(e admit.Event) {
				q := e.Request
				decided.see(q.Header("X-Mark"), fmt.Sprint(q.Method, q.Path, q.Client, q.Address), q.Client == "alice" && q.Address.String() == "127.0.0.2")
			}
			e := serve(t, Config{
				Routes: []Route{{To: []string{to}}}, Control: limiter, Proxies: rules.Proxies{Trusted: network(t, "127.0.0.1/32")},
				Identity: Believed{Header: "X-Customer", From: network(t, "127.0.0.1/32")},
			})
			front := start(t, e.addr)
			if front == nil {
				t.Skip("is not installed")
			}
			addr := strings.TrimPrefix(front.url, "http://")
			vectors := fronted()
			var group sync.WaitGroup
			next := make(chan string)
			for range 8 { // on the same few connections
				group.Go(func() {
					for text := range next {
						through(t, addr, text)
					}
				})
			}
			for _, text := range vectors {
				next <- text
			}
			close(next)
			group.Wait()
			if err := e.end(); err != nil {
				t.Error(err)
			}
			for _, what := range append(decided.bad, served.bad...) {
				t.Error("was not passed on so: ", what)
			}
			for mark := range served.seen {
				if decided.seen[mark] == 0 {
					t.Error("served and not decided: ", mark)
				}
			}
			if t.Logf("%d vectors, %d decided, %d served", len(vectors), len(decided.seen), len(served.seen)); len(served.seen) < 150 {
				t.Error("want at least 150 served, or this tests nothing")
			}
		})
	}
}

// fronted are the requests of TestSmuggling, each with another behind it, and of
// TestForgedAddresses.
func fronted() (all []string) {
	for i, f := range framings() {
		id := strconv.Itoa(i)
		all = append(all, strings.Replace(f.text, " /", " /"+id+"/", 1)+strings.ReplaceAll(behind, "GET /", "GET /"+id+"/"))
	}
	for i, value := range spoofed {
		for _, name := range []string{"X-Forwarded-For", "X_Forwarded_For", "X-Real-IP", "Forwarded", "X-Customer", "X_Customer", "X-Mark", "X_Mark"} {
			if strings.HasSuffix(name, "Mark") {
				value = "forged" + strconv.Itoa(i)
			}
			for _, connection := range []string{"close", "close, X-Customer, X-Forwarded-For, X-Real-Ip", "Te, close, X-Customer"} {
				all = append(all, lines("GET / HTTP/1.1", "Host: h", "Connection: "+connection, name+": "+value))
			}
		}
	}
	return all
}

// through sends bytes from 127.0.0.2 and reads until the other side ends the connection.
func through(t *testing.T, addr, text string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second)) // some wait for more, as they may
	_, _ = io.WriteString(c, text)
	_, _ = io.Copy(io.Discard, c)
}
