//go:build unix

package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// figures are what a run of requests took.
type figures struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
	cpu      float64 // microseconds of this process and the proxy's for each, which others on the machine disturb less
}

// used is the time of processors that this process has had.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hammer sends requests one after the other on each of some connections.
func hammer(t *testing.T, transport http.RoundTripper, p proxy, conns int, d time.Duration) figures {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	end, before := time.Now().Add(d), used(t)+p.used()
	for range conns {
		group.Go(func() {
			var own []time.Duration
			for began := time.Now(); began.Before(end); {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", p.url, nil)
				a, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("%s: %v", p.url, err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				if a.StatusCode != 200 {
					t.Errorf("%s: %d", p.url, a.StatusCode)
					return
				}
				now := time.Now()
				own = append(own, now.Sub(began))
				began = now
			}
			mu.Lock()
			all = append(all, own...)
			mu.Unlock()
		})
	}
	group.Wait()
	cpu := used(t) + p.used() - before
	slices.Sort(all)
	if len(all) == 0 {
		t.Fatal("no request")
	}
	return figures{float64(len(all)) / d.Seconds(), all[len(all)/2], all[len(all)*99/100], float64(cpu.Microseconds()) / float64(len(all))}
}

// proxy is one of those that are compared.
type proxy struct {
	url string
	pid int // of its process; 0 if it is this one
}

// used is the time of processors of the processes of a proxy, its own and its workers'.
func (p proxy) used() (all time.Duration) {
	if p.pid == 0 {
		return 0
	}
	pids := []string{strconv.Itoa(p.pid)}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.pid))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, pid := range pids {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		for _, file := range threads {
			text, _ := os.ReadFile(file) // nanoseconds on a processor, and others
			ns, _, _ := strings.Cut(string(text), " ")
			n, _ := strconv.ParseInt(ns, 10, 64)
			all += time.Duration(n)
		}
	}
	return all
}

// bare starts a ReverseProxy with nothing around it, but with the buffers of the
// gateway, its transport and the bounds of its server.
func bare(t *testing.T, to string) proxy {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	h := &httputil.ReverseProxy{
		Rewrite:    func(p *httputil.ProxyRequest) { p.SetURL(u); p.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, ResponseHeaderTimeout: time.Minute},
		BufferPool: new(buffers),
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadHeaderTimeout, s.Config.IdleTimeout = 10*time.Second, 2*time.Minute
	s.Start()
	t.Cleanup(s.Close)
	return proxy{url: s.URL}
}

// program starts a proxy that listens on addr, the first of some paths that is there; nil
// if it is not installed.
func program(t *testing.T, name string, paths []string, addr string, args ...string) *proxy {
	t.Helper()
	for _, path := range paths {
		path, err := exec.LookPath(path)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cancel(); _ = cmd.Wait() })
		for range 500 {
			if c, err := net.Dial("tcp", addr); err == nil {
				c.Close()
				return &proxy{"http://" + addr, cmd.Process.Pid}
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s does not listen", path)
	}
	t.Logf("**** NO %s: NOT compared; scripts/need-integration.sh installs it ****", strings.ToUpper(name))
	return nil
}

// vacant returns an address that nothing listens on, and writes a file of
// configuration for it.
func vacant(t *testing.T, conf func(addr, dir string) string) (addr, dir, file string) {
	t.Helper()
	addr, dir = clitest.Vacant(t), t.TempDir()
	file = filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(conf(addr, dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return addr, dir, file
}

// nginx starts nginx with limit_req.
func nginx(t *testing.T, to string) *proxy {
	addr, dir, file := vacant(t, func(addr, dir string) string {
		return fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/log crit; worker_processes 2;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
 limit_req_zone $binary_remote_addr zone=z:10m rate=1000000r/s;
 upstream u { server %[2]s; keepalive 256; }
 server { listen %[3]s; keepalive_requests 1000000; location / { limit_req zone=z burst=100000 nodelay; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; } } }`,
			dir, strings.TrimPrefix(to, "http://"), addr)
	})
	return program(t, "nginx", []string{cmp.Or(os.Getenv("NGINX"), "nginx")}, addr, "-p", dir, "-c", file, "-e", filepath.Join(dir, "log"))
}

// caddy starts Caddy with the rate limit module that tools/caddy builds into it.
func caddy(t *testing.T, to string) *proxy {
	type o = map[string]any
	addr, _, file := vacant(t, func(addr, _ string) string {
		limited := o{"handler": "rate_limit", "rate_limits": o{"each": o{"key": "{http.request.remote.host}", "window": "1s", "max_events": 100_000}}}
		passed := o{"handler": "reverse_proxy", "upstreams": []any{o{"dial": strings.TrimPrefix(to, "http://")}}, "transport": o{"protocol": "http", "compression": false, "keep_alive": o{"max_idle_conns_per_host": 256}}}
		conf, err := json.Marshal(o{
			"admin": o{"disabled": true}, "logging": o{"logs": o{"default": o{"level": "ERROR"}}},
			"apps": o{"http": o{"servers": o{"s": o{"listen": []any{addr}, "automatic_https": o{"disable": true}, "routes": []any{o{"handle": []any{limited, passed}}}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(conf)
	})
	var names []string
	for _, name := range []string{os.Getenv("CADDY"), "../../../../.bin/caddy", "caddy"} {
		if name != "" && limitsRates(name) {
			names = []string{name}
			break
		}
	}
	return program(t, "caddy", names, addr, "run", "--config", file)
}

// limitsRates reports whether a Caddy has the rate limit module; that of a distribution
// has none.
func limitsRates(name string) bool {
	modules, err := exec.Command(name, "list-modules").Output()
	return err == nil && slices.ContainsFunc(strings.Fields(string(modules)), func(m string) bool { return m == "http.handlers.rate_limit" })
}

// compared are figures as multiples of those of the bare proxy.
type compared struct{ rate, p50, p99, cpu float64 }

// compare measures the proxies in turns of a random order, and returns medians of
// many short rounds, as others share the machine.
func compare(t *testing.T, proxies map[string]proxy, conns int) (bare figures, all map[string]compared) {
	names, rounds := slices.Sorted(maps.Keys(proxies)), map[string][]figures{}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	for range 41 {
		for _, i := range rand.Perm(len(names)) {
			runtime.GC() // what one leaves is not for the next to collect
			rounds[names[i]] = append(rounds[names[i]], hammer(t, transport, proxies[names[i]], conns, 150*time.Millisecond))
		}
	}
	of := func(name string) figures {
		return figures{
			median(rounds[name], func(f figures) float64 { return f.rate }),
			time.Duration(median(rounds[name], func(f figures) float64 { return float64(f.p50) })),
			time.Duration(median(rounds[name], func(f figures) float64 { return float64(f.p99) })),
			median(rounds[name], func(f figures) float64 { return f.cpu }),
		}
	}
	bare, all = of("bare"), map[string]compared{}
	for _, name := range names {
		f := of(name)
		all[name] = compared{f.rate / bare.rate, float64(f.p50) / float64(bare.p50), float64(f.p99) / float64(bare.p99), f.cpu / bare.cpu}
	}
	return bare, all
}

func median(all []figures, value func(figures) float64) float64 {
	var values []float64
	for _, f := range all {
		values = append(values, value(f))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// TestSoakSpeed: the gateway beside a bare ReverseProxy, nginx and Caddy, each with
// a limit by address that nothing exceeds. A second bare one tells how much of a
// difference is noise.
func TestSoakSpeed(t *testing.T) {
	soak(t)
	body := []byte("hello, world\n")
	to := service(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	e := serve(t, Config{
		Routes:  []Route{{To: []string{to}}},
		Control: control(t, `{"rules": [{"name": "each", "key": "address", "limits": "1000000/s"}]}`),
	})
	proxies := map[string]proxy{"bare": bare(t, to), "bare again": bare(t, to), "gateway": {url: "http://" + e.addr}}
	for name, start := range map[string]func(*testing.T, string) *proxy{"nginx": nginx, "caddy": caddy} {
		if p := start(t, to); p != nil {
			proxies[name] = *p
		}
	}
	for _, conns := range []int{1, 64} {
		bare, all := compare(t, proxies, conns)
		t.Logf("%d connections, as multiples of bare: %.0f/s, p50 %v, p99 %v, %.0f µs of processors each", conns, bare.rate, bare.p50, bare.p99, bare.cpu)
		t.Log("| | rate | p50 | p99 | processors |")
		for _, name := range slices.Sorted(maps.Keys(all)) {
			c := all[name]
			t.Logf("| %s | %.2f | %.2f | %.2f | %.2f |", name, c.rate, c.p50, c.p99, c.cpu)
		}
		g := all["gateway"]
		extra := (g.p50 - 1) * float64(bare.p50.Microseconds())
		if conns == 64 && (g.rate < 0.95 || g.p99 > 1.3) || conns == 1 && extra > 100 {
			t.Errorf("%d connections: %.3f of the rate, p50 + %.0f µs, p99 %.2f times; want 0.95, 100 µs, 1.3", conns, g.rate, extra, g.p99)
		}
	}
}
