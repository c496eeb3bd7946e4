package demo

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// kindScenario is two processes with 450 calls on 100 a second, 20 ms away.
func kindScenario(name string, v sim.Server, workers int) sim.Scenario {
	v.Hints = sim.Hints{Remaining: true}
	return sim.Scenario{
		Name: name, Server: v,
		Network: sim.Network{Latency: 20 * time.Millisecond, Spread: 0.2},
		Clients: []sim.Group{{Processes: 2, Workers: workers, Work: 450}},
	}
}

// agree plays a scenario live, where what limited returns decides, if it is not
// nil, and compares with the simulation. A machine that is busy with other things
// makes one run differ; a model that is wrong, all.
func agree(t *testing.T, s sim.Scenario, name string, limited func() http.Handler) {
	t.Helper()
	const runs = 3
	var differs string
	for range runs {
		if differs = differ(t, s, name, limited()); differs == "" {
			return
		}
	}
	t.Errorf("%s under %s, in all of %d runs, in the last: %s", s.Name, name, runs, differs)
}

// overhead is by how much longer a call takes, on this machine as it is now, than
// the network of a scenario has it.
func overhead(t *testing.T) time.Duration {
	t.Helper()
	const latency = 20 * time.Millisecond
	server, err := serve(sim.Scenario{Network: sim.Network{Latency: latency}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	var took []time.Duration
	for range 21 {
		began := time.Now()
		answer, err := client.Get(server.url)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2] - latency
}

// differ plays it once. It says what differs: when all is served, by more than
// 15 %, or the part of the answers that were refusals, by more than 3 points,
// unless it is as in one of 20 simulated runs.
func differ(t *testing.T, s sim.Scenario, name string, limited http.Handler) (differs string) {
	t.Helper()
	p := parsed(t, name)
	server, err := serve(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if limited != nil {
		server.limited = limited
	}
	if period := s.Server.Limit.Period; s.Server.Limit.Kind != limit.TokenBucket {
		// Begin in the middle of a window, where a few milliseconds do not matter.
		s.Server.Phase = period / 2
		time.Sleep((period + s.Server.Phase - time.Duration(time.Now().UnixNano())%period) % period)
	}
	seen, _, err := playLive(t.Context(), server, p[0], 1, func(string) {})
	server.close()
	if err != nil {
		return err.Error()
	}
	s.Network.Latency += overhead(t)
	predicted := batch.Run(t.Context(), s, p, 20, 1, nil).Rows[0].Summary
	live := sim.Summarise([]sim.Result{seen})
	for _, m := range []struct {
		measure string
		slack   func(float64) float64
	}{
		{"served", func(x float64) float64 { return 0.15 * x }},
		{"finish_s", func(x float64) float64 { return 0.15 * x }},
		{"retry_rate", func(float64) float64 { return 0.03 }},
	} {
		i := measures.At(m.measure)
		got, want := live.Stats[i].V.Median, predicted.Stats[i].V
		t.Logf("%-16s %-20s %-10s %.4g live, %.4g (%.4g to %.4g) simulated", s.Name, name, m.measure, got, want.Median, want.Min, want.Max)
		if math.Abs(got-want.Median) > m.slack(want.Median) && (got < want.Min || got > want.Max) {
			differs += fmt.Sprintf("%s is %.4g live, want about %.4g, from %.4g to %.4g. ", m.measure, got, want.Median, want.Min, want.Max)
		}
	}
	return differs
}

var kindPolicies = []string{"fixed(rate=75)", "backoff-jitter(base=150ms,cap=150ms)", "adaptive-informed", "adaptive"}

// TestSoakKinds plays every kind of limit of our Handler over loopback.
func TestSoakKinds(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: two minutes of real HTTP; make soak runs it")
	}
	for _, kind := range []limit.Kind{
		limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingSlots, limit.SlidingLog, limit.FirstHitWindow,
	} {
		l := limit.Limit{Kind: kind, Count: 100, Period: time.Second}
		if kind == limit.TokenBucket {
			l.Burst = 20
		}
		for _, name := range kindPolicies {
			agree(t, kindScenario(kind.String(), sim.Server{Limit: l}, 10), name, func() http.Handler { return nil })
		}
	}
}

// TestSoakNginx plays limit_req of nginx, which is $NGINX or in $PATH: it delays
// what is too soon, or lets bursts pass. Without nginx it fails under make
// integration, which sets THROTTLE_INTEGRATION=1, and else is skipped.
func TestSoakNginx(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: a minute of real HTTP; make soak runs it")
	}
	program, err := exec.LookPath(cmp.Or(os.Getenv("NGINX"), "nginx"))
	switch {
	case err != nil && os.Getenv("THROTTLE_INTEGRATION") == "1":
		t.Fatalf("no nginx: run scripts/need-integration.sh, which installs it, or set NGINX to its path: %v", err)
	case err != nil:
		t.Skip("NO NGINX: limit_req is NOT tested: run make integration")
	}
	bucket := func(burst int64) limit.Limit { return limit.Limit{Count: 100, Period: time.Second, Burst: burst} }
	for _, test := range []struct {
		options string
		server  sim.Server
	}{
		{"burst=20", sim.Server{Limit: bucket(1), Queue: 20}},
		{"burst=20 nodelay", sim.Server{Limit: bucket(21)}},
		{"burst=20 delay=8", sim.Server{Limit: bucket(9), Queue: 12}},
	} {
		for _, name := range []string{"fixed(rate=75)", "backoff-jitter(base=60ms,cap=60ms)", "adaptive"} {
			s := kindScenario("nginx "+test.options, test.server, 20)
			s.Server.Hints = sim.Hints{}
			agree(t, s, name, func() http.Handler { return behindNginx(t, program, test.options) })
		}
	}
}

// behindNginx asks an nginx of its own, fresh, about each request.
func behindNginx(t *testing.T, program, options string) http.Handler {
	t.Helper()
	address, dir := clitest.Vacant(t), t.TempDir()
	conf := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log /dev/null crit;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	limit_req_zone $server_name zone=all:1m rate=100r/s;
	limit_req_status 429;
	keepalive_requests 1000000;
	server { listen %[2]s; server_name x; location / { limit_req zone=all %[3]s; empty_gif; } }
}
`, dir, address, options)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-c", path)
	cmd.Env, cmd.Stderr = []string{}, os.Stderr // $NGINX means something else to it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	for range 100 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := client.Get("http://" + address + "/")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		io.Copy(io.Discard, answer.Body)
		status := answer.StatusCode
		if status == http.StatusOK {
			status = http.StatusNoContent
		}
		w.WriteHeader(status)
	})
}
