//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// quoted is a service behind several real Envoys, with processes of 'throttle serve' as their
// quota service, one after the other.
type quoted struct {
	fronted
	envoys []string // addresses
	files  []string // of the processes
	admins []string // addresses of theirs
}

func quotaFront(t *testing.T, envoys, processes int, store string) *quoted {
	t.Helper()
	envoy := envoyProgram(t)
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	ports, dir := freePorts(t, envoys+2*processes), t.TempDir()
	f := &quoted{fronted: fronted{t: t}, admins: ports[processes : 2*processes], envoys: ports[2*processes:]}
	text, err := os.ReadFile("testdata/envoy-quota.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yaml", quotaRules)
	for i, at := range ports[:processes] {
		name := fmt.Sprintf("serve-%d.yaml", i)
		write(name, fmt.Sprintf("version: 1\nstore: {url: %q}\nrules: {file: rules.yaml}\nenvoy: {listen: %q, quota: {}}\nadmin: {listen: %q}\ndrain: {delay: 0s}\n", store, at, f.admins[i]))
		f.files = append(f.files, filepath.Join(dir, name))
	}
	port := func(address string) string { _, p, _ := net.SplitHostPort(address); return p }
	for i, at := range f.envoys {
		name := fmt.Sprintf("envoy-%d.yaml", i)
		write(name, strings.NewReplacer("port_value: OPEN", "port_value: "+port(at), "port_value: LIMITS", "port_value: "+port(ports[i%processes]),
			"port_value: SERVICE", "port_value: "+port(service.Listener.Addr().String())).Replace(string(text)))
		c := exec.CommandContext(t.Context(), envoy, "-c", filepath.Join(dir, name), "--use-dynamic-base-id", "--concurrency", "2", "-l", "error")
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Process.Kill()
			_ = c.Wait() // it was killed
		})
	}
	return f
}

// process starts a process of 'throttle serve', and returns what kills it.
func (f *quoted) process(i int) (kill func()) {
	f.file = f.files[i]
	return f.serve()
}

// demand are requests of a user that are sent to an Envoy, so many a second, until the test ends. passed
// counts those that were admitted.
type demand struct {
	sync.Mutex
	passed, refused, other int
	stop                   func()
}

func (f *quoted) demands(envoy int, user string, perSecond int) *demand {
	l, done := new(demand), make(chan struct{})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	var all sync.WaitGroup
	one := func() {
		q, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.envoys[envoy]+"/", nil)
		if err != nil {
			return
		}
		q.Header.Set("X-User", user)
		a, err := client.Do(q)
		l.Lock()
		defer l.Unlock()
		switch {
		case err != nil:
			l.other++
			return
		case a.StatusCode == http.StatusOK:
			l.passed++
		case a.StatusCode == http.StatusTooManyRequests:
			l.refused++
		default:
			l.other++
		}
		a.Body.Close()
	}
	all.Go(func() {
		began, sent := time.Now(), 0
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for ; float64(sent) < time.Since(began).Seconds()*float64(perSecond); sent++ {
				all.Go(one)
			}
		}
	})
	l.stop = sync.OnceFunc(func() { close(done); all.Wait(); client.CloseIdleConnections() })
	f.t.Cleanup(l.stop)
	return l
}

func (l *demand) count() int {
	l.Lock()
	defer l.Unlock()
	return l.passed
}

// lasts lets real time pass.
func (f *quoted) lasts(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.t.Context().Done():
	}
}

// rates are how many requests of loads are admitted a second, over d.
func (f *quoted) rates(d time.Duration, all ...*demand) (rates []float64) {
	began, before := time.Now(), make([]int, len(all))
	for i, l := range all {
		before[i] = l.count()
	}
	f.lasts(d)
	for i, l := range all {
		rates = append(rates, float64(l.count()-before[i])/time.Since(began).Seconds())
	}
	return rates
}

// one is the status of a request of a user; zero if there is no answer.
func (f *quoted) one(envoy int, user string) int {
	status, _ := f.get(f.envoys[envoy], "/", "x-user", user)
	return status
}

const quotaRules = `deny: entry:user=mallory
rules:
  - {name: user, match: {domains: edge, descriptor: [name=api, user]}, key: entry:user, limits: 100/s}
`

// about reports whether a rate is within a part of another.
func about(got, want, within float64) bool {
	return got >= want*(1-within) && got <= want*(1+within)
}

// TestEnvoyQuota: two real Envoys of unequal demand share a limit: max-min fair, and
// together all of it after two reports. A denied user gets nothing. With THROTTLE_SOAK=1 it is
// measured for a minute.
func TestEnvoyQuota(t *testing.T) {
	t.Parallel()
	f := quotaFront(t, 2, 1, "memory:")
	kill := f.process(0)
	defer kill()
	for i := range f.envoys {
		eventually(t, "a denied user is refused", func() bool { return f.one(i, "mallory") == 429 })
	}
	began := time.Now()
	a, b := f.demands(0, "jane", 200), f.demands(1, "jane", 30)
	first := f.rates(time.Second, a, b)
	wait, measure, within := 10*time.Second, 2*time.Second, 0.1
	if os.Getenv("THROTTLE_SOAK") == "1" {
		wait, measure, within = 15*time.Second, time.Minute, 0.05
	}
	f.lasts(wait)
	got := f.rates(measure, a, b)
	took := time.Since(began)
	t.Logf("first second %.1f/s, then %.1f/s; %d in %v", first, got, a.count()+b.count(), took)
	if !about(got[0], 70, 0.1) || !about(got[1], 30, 0.1) || !about(got[0]+got[1], 100, within) {
		t.Errorf("demands of 200/s and 30/s on 100/s: %.1f/s are admitted, want 70/s and 30/s", got)
	}
	if n, most := a.count()+b.count(), 100+100*took.Seconds()+400; float64(n) > most {
		t.Errorf("%d were admitted in %v, want at most %.0f", n, took, most)
	}
	if a.other+b.other > 0 {
		t.Errorf("%d answers were neither 200 nor 429", a.other+b.other)
	}
}

// TestEnvoyQuotaRestart: while the program is away, Envoy goes on with what it was
// assigned; after a restart it is assigned that once more.
func TestEnvoyQuotaRestart(t *testing.T) {
	t.Parallel()
	f := quotaFront(t, 1, 1, "memory:")
	kill := f.process(0)
	defer func() { kill() }()
	eventually(t, "a denied user is refused", func() bool { return f.one(0, "mallory") == 429 })
	began, l := time.Now(), f.demands(0, "jane", 200)
	f.lasts(5500 * time.Millisecond) // its second report
	kill()
	if got := f.rates(1500*time.Millisecond, l); !about(got[0], 100, 0.1) {
		t.Errorf("while the service is away: %.1f/s, want what was assigned, 100/s", got)
	}
	kill = f.process(0)
	f.lasts(time.Until(began.Add(11 * time.Second))) // Envoy opens a stream at its next report
	if got := f.rates(2*time.Second, l); !about(got[0], 100, 0.1) {
		t.Errorf("after a restart: %.1f/s, want 100/s", got)
	}
	took := time.Since(began)
	t.Logf("%d in %v", l.count(), took)
	if n, most := l.count(), 100+100*took.Seconds()+400; float64(n) > most {
		t.Errorf("%d were admitted in %v, want at most %.0f", n, took, most)
	}
	if f.one(0, "mallory") != 429 {
		t.Error("a denied user passes after a restart")
	}
}

// TestEnvoyQuotaShared: two processes with one Redis, each with an Envoy of its own, share a
// limit; without Redis they go on.
func TestEnvoyQuotaShared(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("20 s; THROTTLE_SOAK=1 runs it")
	}
	t.Parallel()
	redis := freePorts(t, 1)[0]
	killRedis := startRedis(t, redis)
	defer func() { killRedis() }()
	f := quotaFront(t, 2, 2, "redis://"+redis)
	for i := range f.files {
		defer f.process(i)()
	}
	for i := range f.envoys {
		eventually(t, "a denied user is refused", func() bool { return f.one(i, "mallory") == 429 })
	}
	began := time.Now()
	a, b := f.demands(0, "jane", 200), f.demands(1, "jane", 200)
	f.lasts(15500 * time.Millisecond) // three reports: what both demand is known to both
	got := f.rates(2*time.Second, a, b)
	killRedis()
	killRedis = func() {}
	without := f.rates(2*time.Second, a, b)
	took := time.Since(began)
	t.Logf("%.1f/s, without Redis %.1f/s; %d in %v", got, without, a.count()+b.count(), took)
	for _, rates := range [][]float64{got, without} {
		if !about(rates[0], 50, 0.15) || !about(rates[1], 50, 0.15) || !about(rates[0]+rates[1], 100, 0.1) {
			t.Errorf("demands of 200/s each on 100/s: %.1f/s, and without Redis %.1f/s; want 50/s each", got, without)
			break
		}
	}
	if n, most := a.count()+b.count(), 100+100*took.Seconds()+100*10+400; float64(n) > most {
		t.Errorf("%d were admitted in %v, want at most %.0f", n, took, most)
	}
}
