package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/throttlehttp"
)

// found runs the command and returns what it printed.
func found(t *testing.T, args ...string) (o object, text string) {
	t.Helper()
	stdout, stderr, code := clitest.Play(t.Context(), Run, append([]string{"-json"}, args...)...)
	if code != 0 && code != 3 {
		t.Fatalf("find %q: code %d, %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &o); err != nil {
		t.Fatalf("find %q: %v: %s", args, err, stdout)
	}
	return o, stdout
}

// right checks that the limiter was identified as m, its parameters within 5 %.
func right(t *testing.T, name string, o object, m fit.Model) {
	t.Helper()
	best := o.Candidates[0]
	t.Logf("%s: %s; decided %t, share %.4f, %d requests in %.1f s, %d refused %s", name, best.Text, o.Decided, best.Share, o.Used, o.Seconds, o.Refused, o.Why)
	if !o.Decided || best.Kind != m.Kind.String() || best.FromFirst != m.FromFirst {
		t.Errorf("%s: identified as %s (decided: %t, %s), want %v", name, best.Text, o.Decided, o.Why, m)
		for _, c := range o.Candidates {
			t.Logf("   %s: %.1f", c.Text, c.LogLikelihood)
		}
		return
	}
	if m.Period > 0 {
		m.Rate = 0 // of count and period
	}
	for what, p := range map[string]struct {
		got  *value
		want float64
	}{
		"rate": {best.Rate, m.Rate}, "burst": {best.Burst, m.Burst}, "count": {best.Count, m.Count},
		"period": {best.Period, m.Period.Seconds()}, "in flight": {best.InFlight, float64(m.InFlight)},
	} {
		if p.want > 0 && (p.got == nil || math.Abs(p.got.Is-p.want) > 0.05*p.want) {
			t.Errorf("%s: %s is %+v, want %.4g within 5 %%", name, what, p.got, p.want)
		}
	}
}

// limited serves what a limit admits, with the header fields or without them.
func limited(l limit.Limit, headers throttlehttp.Headers) http.Handler {
	return &throttlehttp.Handler{Control: &admit.Control{Limit: l, Spread: -1}, Headers: headers}
}

func perSecond(kind limit.Kind, count int64, period time.Duration) limit.Limit {
	l := limit.Limit{Kind: kind, Count: count, Period: period}
	if kind == limit.TokenBucket {
		l.Burst = 10
	}
	return l
}

// modelOf is what is to be found.
func modelOf(l limit.Limit) fit.Model {
	m := fit.Model{Rate: float64(l.Count) / l.Period.Seconds(), Count: float64(l.Count), Period: l.Period}
	switch l.Kind {
	case limit.TokenBucket:
		m = fit.Model{Kind: fit.TokenBucket, Rate: m.Rate, Burst: float64(l.Burst)}
	case limit.FixedWindow:
		m.Kind = fit.FixedWindow
	case limit.FirstHitWindow:
		m.Kind, m.FromFirst = fit.FixedWindow, true
	case limit.SlidingLog:
		m.Kind = fit.SlidingLog
	case limit.SlidingWindow:
		m.Kind = fit.SlidingCounter
	}
	return m
}

// TestObserveLog asks over loopback, and then reads what was logged: that has the
// same answers. What they say depends on the machine: see TestIdentify.
func TestObserveLog(t *testing.T) {
	l := limit.Limit{Count: 1, Period: time.Minute, Burst: 10} // on any machine, the 11th is refused
	s := httptest.NewServer(limited(l, throttlehttp.Silent))
	defer s.Close()
	log := filepath.Join(t.TempDir(), "log")
	live, _ := found(t, "-limit", "-for=2s", "-requests=200", "-log", log, s.URL)
	again, _ := found(t, "-observe", log)
	if live.Refused == 0 || !reflect.DeepEqual(live.Statuses, again.Statuses) || live.Used != again.Used || live.Refused != again.Refused ||
		math.Abs(live.Seconds-again.Seconds) > 0.1 || math.Abs(live.Latency-again.Latency) > 0.001 {
		t.Errorf("from the log: %+v\nwant as live: %+v", again, live)
	}
}

// limiter is a service that decides by a limit, after half of its latency.
type limiter struct {
	limit limit.Limit
	rng   *rand.Rand

	mu    sync.Mutex
	state limit.State
	log   limit.Log
}

func (s *limiter) send(context.Context) (seen, error) {
	sent := time.Now()
	s.pass()
	ask, d := limit.Ask{Limit: s.limit, N: 1}, limit.Decision{}
	s.mu.Lock()
	if s.limit.Kind == limit.SlidingLog {
		d = s.log.Take(time.Now(), ask)
	} else {
		s.state, d = limit.Take(s.state, time.Now(), ask)
	}
	s.mu.Unlock()
	s.pass()
	status := http.StatusOK
	if !d.OK {
		status = http.StatusTooManyRequests
	}
	return seen{sent: sent, ended: time.Now(), status: status}, nil
}

func (s *limiter) pass() {
	s.mu.Lock()
	d := 2*time.Millisecond + time.Duration(s.rng.Int64N(int64(time.Millisecond)))
	s.mu.Unlock()
	time.Sleep(d)
}

// TestIdentify identifies limiters in virtual time, by the code that asks real
// ones: one, or with THROTTLE_SOAK all of them.
func TestIdentify(t *testing.T) {
	for i, kind := range handlerKinds {
		for j, l := range []limit.Limit{perSecond(kind, 20, time.Second), perSecond(kind, 30, 10*time.Second)} {
			if i+j > 0 && os.Getenv("THROTTLE_SOAK") == "" {
				continue
			}
			bubble.Test(t, func(t *testing.T) {
				o, err := optionsOf([]string{"-limit", "http://127.0.0.1/"})
				if err != nil {
					t.Fatal(err)
				}
				p := &prober{to: &limiter{limit: l, rng: rand.New(rand.NewPCG(1, 1))}, reader: reader{dialect: signal.For("")}, plan: o.plan, failures: 1, show: func(string) {}}
				if err := p.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				if err := findingsOf(p.reader, "", p.seen, p.answers, p.ended).writeJSON(&text); err != nil {
					t.Fatal(err)
				}
				var found object
				if err := json.Unmarshal(text.Bytes(), &found); err != nil {
					t.Fatal(err)
				}
				right(t, l.String(), found, modelOf(l))
			})
		}
	}
}

// queue is a service that serves one request each second; who waits for a timeout gets none.
type queue struct {
	timeout time.Duration

	mu   sync.Mutex
	free time.Time
}

func (s *queue) send(context.Context) (seen, error) {
	s.mu.Lock()
	sent := time.Now()
	if s.free.Before(sent) {
		s.free = sent
	}
	wait := s.free.Sub(sent) + 2*time.Millisecond
	s.free = s.free.Add(time.Second)
	s.mu.Unlock()
	if wait > s.timeout {
		time.Sleep(s.timeout)
		return seen{sent: sent, ended: time.Now()}, context.DeadlineExceeded
	}
	time.Sleep(wait)
	return seen{sent: sent, ended: time.Now(), status: http.StatusOK}, nil
}

// TestSlowQueue: a queue is found though it answers few requests within -timeout.
func TestSlowQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o, err := optionsOf([]string{"-limit", "-timeout=6s", "http://127.0.0.1/"})
		if err != nil {
			t.Fatal(err)
		}
		p := &prober{to: &queue{timeout: 6 * time.Second}, reader: reader{dialect: signal.For("")}, plan: o.plan, failures: 1, show: func(string) {}}
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := fit.Fit(p.answers); !r.Decided || r.Candidates[0].Model.String() != "delaying queue, 1/s, burst 1" {
			t.Errorf("found %v, decided %t; want a delaying queue, 1/s", r.Candidates[0].Model, r.Decided)
		}
	})
}

var handlerKinds = []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.FirstHitWindow, limit.SlidingWindow, limit.SlidingLog}

// TestSoakIdentifyHandler identifies our Handler in all kinds, with its header
// fields and without.
func TestSoakIdentifyHandler(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: minutes of real HTTP; make soak runs it")
	}
	for _, kind := range handlerKinds {
		for headers, name := range map[throttlehttp.Headers]string{throttlehttp.Draft: "with RateLimit", throttlehttp.OnlyRetryAfter: "with Retry-After", throttlehttp.Silent: "silent"} {
			for _, l := range []limit.Limit{perSecond(kind, 20, time.Second), perSecond(kind, 30, 3*time.Second)} {
				t.Run(l.String()+" "+name, func(t *testing.T) {
					t.Parallel()
					s := httptest.NewServer(limited(l, headers))
					defer s.Close()
					o, _ := found(t, "-limit", s.URL)
					right(t, l.String()+" "+name, o, modelOf(l))
				})
			}
		}
	}
}

// TestSoakIdentifyInFlight identifies a concurrency limit, a queue that delays,
// and no limit.
func TestSoakIdentifyInFlight(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: minutes of real HTTP; make soak runs it")
	}
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	queue, shaped := new(admit.Queue), limit.Limit{Count: 5, Period: time.Second, Burst: 1} // its timers are late: not faster
	for _, test := range []struct {
		name    string
		handler http.Handler
		want    fit.Model
	}{
		{"in flight", &throttlehttp.Handler{Control: &admit.Control{MaxInFlight: 6}, Next: work}, fit.Model{Kind: fit.Concurrency, InFlight: 6}},
		{"queue", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { queue.Wait(r.Context(), "x", shaped, 1) }), fit.Model{Kind: fit.Delay, Rate: 5, Burst: 1}},
		{"no limit", work, fit.Model{}},
	} {
		s := httptest.NewServer(test.handler)
		o, _ := found(t, "-limit", s.URL)
		right(t, test.name, o, test.want)
		s.Close()
	}
}
