package sim

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// A try that lasts too long ends as failed, and what it was about goes on at the
// server.
func TestTimeout(t *testing.T) {
	s := serving(100*time.Second, Server{Service: Service{Time: time.Second}}, 1)
	s.Clients[0].Timeout = 500 * time.Millisecond
	r := play(t, s, "none", 1)
	if r.Served != 0 || r.Sent < 199 || r.Sent > 201 {
		t.Errorf("half a second for what takes one: served %d of %d, want none of 200", r.Served, r.Sent)
	}
	s.Clients[0].Timeout = 1500 * time.Millisecond
	if r := play(t, s, "none", 1); r.Served < 98 || r.Sent > 100 {
		t.Errorf("one and a half: served %d of %d, want all of 99", r.Served, r.Sent)
	}
	s.Network.Loss = 0.3
	r = play(t, s, "none", 1)
	if part := float64(r.Served) / float64(r.Sent); part < 0.55 || part > 0.85 {
		t.Errorf("three in ten lost: served %.2f of what was sent, want 0.7", part)
	}
}

// A call is given up when its caller has lost patience, wherever it is, and
// what is of no use any more is no goodput.
func TestPatience(t *testing.T) {
	s := serving(100*time.Second, Server{Service: Service{Time: 300 * time.Millisecond, AtOnce: 1, Queue: 100}}, 4)
	r := play(t, s, "none", 1)
	if r.Goodput.OK || r.InTime.OK {
		t.Errorf("without patience or a deadline goodput is %v, in time %v; want neither", r.Goodput, r.InTime)
	}
	s.Clients[0].Deadline = time.Second // each waits for 1.2 s
	r = play(t, s, "none", 1)
	if r.Served < 325 || r.InTime.V > 0.02 || r.Goodput.V > 0.1 {
		t.Errorf("all too late: served %d, in time %.2f, goodput %.2f; want 330, 0, 0", r.Served, r.InTime.V, r.Goodput.V)
	}
	s.Clients[0].Deadline = 2 * time.Second
	if r := play(t, s, "none", 1); r.InTime.V < 0.99 || math.Abs(r.Goodput.V-3.3) > 0.1 {
		t.Errorf("all in time: %.2f of calls, %.2f a second; want all, 3.3", r.InTime.V, r.Goodput.V)
	}
	s.Clients[0].Deadline, s.Clients[0].Patience = 0, time.Second
	r = play(t, s, "none", 1)
	if r.InTime.V > 0.2 || r.WaitP99.V > 1 || r.Utilisation.V < 0.9 {
		t.Errorf("a second of patience: in time %.2f, longest wait %.2f, utilisation %.2f; want the server busy with what nobody waits for", r.InTime.V, r.WaitP99.V, r.Utilisation.V)
	}
}

// Work that is given up is done, whoever gives it up: the gate, which knows that
// it would be too late, or the caller.
func TestPatienceEndsWork(t *testing.T) {
	for _, name := range []string{"none", "fixed(rate=1)", "backoff", "adaptive-informed", "aws-adaptive"} {
		s := serving(time.Hour, Server{Limit: bucketOf(1, time.Second, 1), Hints: Hints{RetryAfter: true}}, 5)
		s.Clients[0].Patience, s.Clients[0].Work = 2*time.Second, 100
		r := play(t, s, name, 1)
		if !r.Finish.OK || r.Finish.V > 200 || r.WaitP99.V > 2.02 || r.Served == 0 || r.Served >= 100 {
			t.Errorf("%s: done after %v s with %d served within %.2f s, want sooner and within 2 s", name, r.Finish, r.Served, r.WaitP99.V)
		}
	}
}

// What fails for good is not retried; other failures are, as far as the numbers
// and the budget go.
func TestFailures(t *testing.T) {
	tries := func(v Server, change func(*Group)) float64 {
		s := serving(200*time.Second, v, 1)
		s.Clients[0].Patience = 10 * time.Second
		if change != nil {
			change(&s.Clients[0])
		}
		r := play(t, s, "none", 1)
		return float64(r.Sent) * r.InTime.V / float64(r.Served)
	}
	half := Server{Errors: 0.5}
	for _, test := range []struct {
		what   string
		server Server
		change func(*Group)
		want   float64 // tries a call
	}{
		{"for good", Server{Final: 0.5}, nil, 1},
		{"never retried", half, func(g *Group) { g.Retries = -1 }, 1},
		{"no budget", half, func(g *Group) { g.Retries, g.Budget = 10, pace.Budget{Max: -1} }, 2},
		{"once", half, func(g *Group) { g.Retries, g.Budget = 1, pace.Budget{Max: -1} }, 1.5},
		{"a tenth", half, nil, 1.1},
	} {
		if got := tries(test.server, test.change); math.Abs(got-test.want) > 0.06 {
			t.Errorf("%s: %.3f tries a call, want %.1f", test.what, got, test.want)
		}
	}
}

// Calls come up as they should: at rates that change, many at once, as they
// were recorded.
func TestArrivals(t *testing.T) {
	s := serving(1000*time.Second, Server{}, 100)
	counts := func(g Group) (each [10]int64) {
		g.Processes, g.Workers = 2, 100
		s.Clients = []Group{g}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		r := New(s, policy(t, "none"), 1)
		r.Watch = func(p Point) {
			if p.Sent {
				each[p.At/(100*time.Second)]++
			}
		}
		for !r.Step(1_000_000) {
		}
		return each
	}
	got := counts(Group{Steps: []Arrive{{Rate: 1}, {At: 100 * time.Second, Rate: 5}}, Repeat: 200 * time.Second})
	for i, n := range got {
		want := []float64{200, 1000}[i%2]
		if math.Abs(float64(n)-want) > 4*math.Sqrt(want) {
			t.Errorf("steps: %d calls in part %d, want about %v", n, i, want)
		}
	}
	for i, n := range counts(Group{Arrivals: 2, Batch: 20}) {
		if n%20 != 0 && i > 0 && i < 9 || n < 150 || n > 700 {
			t.Errorf("batches: %d calls in part %d, want about 400, in twenties", n, i)
		}
	}
	got = counts(Group{Trace: []time.Duration{0, 1e9, 150e9, 150e9, 150e9, 999e9}})
	if got != [10]int64{2, 3, 0, 0, 0, 0, 0, 0, 0, 1} {
		t.Errorf("trace: calls %v, want 2, 3 and 1", got)
	}
}

// The clocks of clients differ, and nothing else does: a policy that reads no
// wall clock goes as ever.
func TestClocks(t *testing.T) {
	s := builtin(t, "emr-shared")
	s.Clients[0].Clock, s.Clients[1].Clock = 10*time.Second, time.Hour
	r := New(s, policy(t, "backoff"), 1)
	off := map[int64]bool{}
	for _, l := range r.lanes {
		off[l.off] = true
	}
	if len(off) < 3 {
		t.Errorf("clocks are off by %v, want another for each process", off)
	}
	for !r.Step(1_000_000) {
	}
	if got := r.Result(); got.Utilisation.V < 0.99 || got.MaxSleep.V > 60 {
		t.Errorf("utilisation %v, max sleep %v; want as with right clocks", got.Utilisation, got.MaxSleep)
	}
}

// What is over takes no room, however long it would have been waited for.
func TestWhatIsOverIsForgotten(t *testing.T) {
	s := serving(1000*time.Second, Server{}, 10)
	s.Clients[0].Timeout, s.Clients[0].Patience = time.Hour, 2*time.Hour
	r := New(s, policy(t, "none"), 1)
	for !r.Step(1_000_000) {
	}
	if n := len(r.queue.events); n > 30 || len(r.flights) > 11 || r.Result().Served < 900_000 {
		t.Errorf("after %d calls %d events and %d flights are left, want 3 of each worker at most", r.Result().Served, n, len(r.flights))
	}
	s.Clients[0].Timeout = 15 * time.Millisecond
	s.Network.Loss = 0.5
	r = New(s, policy(t, "none"), 1)
	for !r.Step(1_000_000) {
	}
	if len(r.flights) > 22 {
		t.Errorf("half is lost: %d flights, want 2 of each worker at most", len(r.flights))
	}
}
