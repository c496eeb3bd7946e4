package demo

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/throttlehttp"
)

// steps is dynamodb in two minutes: a table whose capacity is changed under
// its writers.
func steps() sim.Scenario {
	s, _ := sim.Find("dynamodb")
	s.Name, s.Duration = "dynamodb-steps", s.Duration/4
	for i := range s.Server.Changes {
		s.Server.Changes[i].At /= 4
	}
	return s
}

// changing is a Store of one key whose limit follows a scenario's changes.
type changing struct {
	mu      sync.Mutex
	began   time.Time
	changes []sim.Change
	limit   limit.Limit
	state   limit.State
}

func (c *changing) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(c.changes) > 0 && now.Sub(c.began) >= c.changes[0].At {
		next := c.limit
		next.Count, next.Period = c.changes[0].Count, c.changes[0].Period
		c.state = limit.Change(c.state, now, c.limit, next)
		c.limit, c.changes = next, c.changes[1:]
	}
	a[0].Limit = c.limit
	c.state, d[0] = limit.Take(c.state, now, a[0])
	return d[0].OK, nil
}

// soakLive lets real clients write to it, and returns what became of it.
func soakLive(t *testing.T, s sim.Scenario, p sim.Policy) (sent, served, throttled int64) {
	t.Helper()
	var answers [3]atomic.Int64
	store := &changing{began: time.Now(), changes: s.Server.Changes, limit: s.Server.Limit}
	limited := &throttlehttp.Handler{Control: &admit.Control{Limit: s.Server.Limit, Store: store}, Headers: throttlehttp.OnlyRemaining}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		until(r.Context(), arrived.Add(s.Network.Latency/2))
		recorder := httptest.NewRecorder()
		limited.ServeHTTP(recorder, r)
		answers[0].Add(1)
		if recorder.Code == http.StatusTooManyRequests {
			answers[2].Add(1)
		} else {
			answers[1].Add(1)
		}
		if p.Hears.Remaining {
			w.Header().Set("RateLimit-Remaining", recorder.Header().Get("RateLimit-Remaining"))
		}
		until(r.Context(), arrived.Add(s.Network.Latency))
		w.WriteHeader(recorder.Code)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(s.Duration, cancel)
	var all sync.WaitGroup
	for range s.Clients[0].Processes {
		base := &http.Transport{MaxIdleConnsPerHost: s.Clients[0].Workers}
		defer base.CloseIdleConnections()
		client := &http.Client{Transport: &throttlehttp.Transport{Base: base, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: p.New()}
		}}}}
		for range s.Clients[0].Workers {
			all.Go(func() {
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
					if resp, err := client.Do(req); err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			})
		}
	}
	all.Wait()
	return answers[0].Load(), answers[1].Load(), answers[2].Load()
}

// TestSoakLiveFollowsTheCapacity plays two minutes of real HTTP, 20 processes
// of 4 workers under a capacity that steps, and compares with the simulation.
func TestSoakLiveFollowsTheCapacity(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: two minutes each of real HTTP; make soak runs it")
	}
	s := steps()
	for _, name := range []string{"adaptive-informed", "adaptive(probe=20s)"} {
		p, err := sim.ParsePolicy(name)
		if err != nil {
			t.Fatal(err)
		}
		r := batch.Run(t.Context(), s, []sim.Policy{p}, 20, 1, func(int, int) {})
		predicted := map[string]sim.Stat{}
		for i, stat := range r.Rows[0].Summary.Stats {
			predicted[sim.Measures[i].Name] = stat.V
		}
		sent, served, throttled := soakLive(t, s, p)
		check := func(what string, got float64, want sim.Stat, slack float64) {
			t.Logf("%s: %s %.4g live, %.4g (%.4g to %.4g) simulated", name, what, got, want.Median, want.Min, want.Max)
			if math.Abs(got-want.Median) > 0.2*want.Median && (got < want.Min-slack || got > want.Max+slack) {
				t.Errorf("%s: %s %.4g live, want within 20 %% of %.4g, or from %.4g to %.4g", name, what, got, want.Median, want.Min, want.Max)
			}
		}
		check("served", float64(served), predicted["served"], 0)
		check("retry rate", float64(throttled)/float64(sent), predicted["retry_rate"], 0.005)
	}
}
