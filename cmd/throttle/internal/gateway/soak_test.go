package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
)

func soak(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("measures; THROTTLE_SOAK=1 runs it")
	}
}

// figures are what a run of requests took.
type figures struct {
	rate     float64 // requests a second
	p50, p99 time.Duration
	cpu      float64 // microseconds of this process for each, which others on the machine disturb less
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
func hammer(t *testing.T, transport http.RoundTripper, url string, conns int, d time.Duration) figures {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	end, before := time.Now().Add(d), used(t)
	for range conns {
		group.Go(func() {
			var own []time.Duration
			for began := time.Now(); began.Before(end); {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				a, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("%s: %v", url, err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				if a.StatusCode != 200 {
					t.Errorf("%s: %d", url, a.StatusCode)
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
	cpu := used(t) - before
	slices.Sort(all)
	if len(all) == 0 {
		t.Fatal("no request")
	}
	return figures{float64(len(all)) / d.Seconds(), all[len(all)/2], all[len(all)*99/100], float64(cpu.Microseconds()) / float64(len(all))}
}

// bare starts a ReverseProxy with nothing around it, but with the buffers of the
// gateway, its transport and the bounds of its server.
func bare(t *testing.T, to string) string {
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
	return s.URL
}

// nginx starts nginx with limit_req, "" if there is none.
func nginx(t *testing.T, to string) string {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return ""
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	conf := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/log crit; worker_processes 2;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
 limit_req_zone $binary_remote_addr zone=z:10m rate=1000000r/s;
 upstream u { server %[2]s; keepalive 256; }
 server { listen %[3]s; keepalive_requests 1000000; location / { limit_req zone=z burst=100000 nodelay; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; } } }`,
		dir, to[len("http://"):], addr)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-p", dir, "-c", filepath.Join(dir, "conf"), "-e", filepath.Join(dir, "log"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return "http://" + addr
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nginx does not listen")
	return ""
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// TestSoakSpeed: in turns with a bare ReverseProxy, and nginx where there is one,
// medians of many short rounds, as others share the machine.
func TestSoakSpeed(t *testing.T) {
	soak(t)
	body := []byte("hello, world\n")
	to := service(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	e := serve(t, Config{
		Routes:  []Route{{To: []string{to}}},
		Control: control(t, `{"rules": [{"name": "each", "key": "address", "limits": "1000000/s"}]}`),
	})
	peers := []struct{ name, url string }{{"bare", bare(t, to)}, {"gateway", "http://" + e.addr}, {"nginx", nginx(t, to)}}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	defer transport.CloseIdleConnections()
	for _, conns := range []int{1, 64} {
		rate, p50, p99, cpu, extra := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}, map[string][]float64{}, []float64{}
		var rates, cpus []float64 // of bare
		for round := range 41 {
			var base figures
			if round%2 == 1 { // so that neither always comes first
				base = hammer(t, transport, peers[0].url, conns, 150*time.Millisecond)
			}
			for _, p := range peers {
				if p.url == "" {
					continue
				}
				f := hammer(t, transport, p.url, conns, 150*time.Millisecond)
				if p.name == "bare" {
					base = f
				}
				rate[p.name] = append(rate[p.name], f.rate/base.rate)
				p50[p.name] = append(p50[p.name], float64(f.p50)/float64(base.p50))
				p99[p.name] = append(p99[p.name], float64(f.p99)/float64(base.p99))
				cpu[p.name] = append(cpu[p.name], f.cpu/base.cpu)
				if p.name == "gateway" {
					extra = append(extra, float64(f.p50-base.p50)/1e3)
				}
			}
			rates, cpus = append(rates, base.rate), append(cpus, base.cpu)
		}
		t.Logf("%d connections: bare %.0f/s, %.0f µs of processors each", conns, median(rates), median(cpus))
		for _, p := range peers {
			if p.url != "" {
				t.Logf("%d connections, %s: %.3f of the rate of bare, p50 %.3f, p99 %.3f, processors %.3f times", conns, p.name, median(rate[p.name]), median(p50[p.name]), median(p99[p.name]), median(cpu[p.name]))
			}
		}
		if r, m, q := median(rate["gateway"]), median(extra), median(p99["gateway"]); conns == 64 && (r < 0.95 || q > 1.3) || conns == 1 && m > 100 {
			t.Errorf("%d connections: %.3f of the rate, p50 + %.0f µs, p99 %.2f times; want 0.95, 100 µs, 1.3", conns, r, m, q)
		}
	}
}

// TestSoakOverload: an upstream with a few workers is called ten times as often
// as it can serve, and goes on serving as much, with little more latency, where
// the gateway knows how many workers there are. Where it learns that, the goodput
// is the same, and the latency is only reported.
func TestSoakOverload(t *testing.T) {
	soak(t)
	const workers, each = 4, 40 * time.Millisecond // 100 a second
	slots := make(chan struct{}, workers)
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-slots }()
		time.Sleep(each)
	})
	for name, shed := range map[string]Shed{"known": {MaxInFlight: workers + 1, MaxWait: 20 * time.Millisecond}, "learnt": {MaxWait: -1}} {
		e := serve(t, Config{Routes: []Route{{To: []string{to}, Shed: &shed}}, Control: new(admit.Control)})
		url := "http://" + e.addr
		full, _ := offer(t, url, 97, 5*time.Second)
		_, unloaded := offer(t, url, 50, 4*time.Second)
		offer(t, url, 1000, 3*time.Second) // it learns
		served, late := offer(t, url, 1000, 8*time.Second)
		t.Logf("%s: at 97/s of 100/s %.0f/s are served; at 1000/s %.0f/s with p99 %v, unloaded p99 %v", name, full, served, late, unloaded)
		if served < 0.95*full || name == "known" && late > 2*unloaded {
			t.Errorf("%s: goodput %.2f of what is served without overload, p99 %.2f times; want 0.95 and 2", name, served/full, float64(late)/float64(unloaded))
		}
	}
}

// offer sends requests at a rate, whatever becomes of them, and returns how many
// were served a second, and their p99.
func offer(t *testing.T, url string, rate int, d time.Duration) (goodput float64, p99 time.Duration) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2000, MaxConnsPerHost: 2000}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	var open atomic.Int64
	began := time.Now()
	for sent := 0; time.Since(began) < d; {
		for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
			if open.Load() > 4000 {
				continue
			}
			open.Add(1)
			group.Go(func() {
				defer open.Add(-1)
				at := time.Now()
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				a, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				io.Copy(io.Discard, a.Body)
				a.Body.Close()
				if a.StatusCode == 200 {
					mu.Lock()
					all = append(all, time.Since(at))
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	group.Wait()
	took := time.Since(began)
	if len(all) == 0 {
		t.Fatal("nothing was served")
	}
	slices.Sort(all)
	return float64(len(all)) / took.Seconds(), all[len(all)*99/100]
}
