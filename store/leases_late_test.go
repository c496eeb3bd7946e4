package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// stopped is a memory.Store whose first answers come so much later, as if the
// process had been stopped after it had asked.
type stopped struct {
	memory.Store
	mu    sync.Mutex
	stops []time.Duration
	asked []limit.Ask
}

func (s *stopped) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	ok, err := s.Store.Take(ctx, a, d)
	s.mu.Lock()
	s.asked = append(s.asked, a...)
	var stop time.Duration
	if len(s.stops) > 0 {
		stop, s.stops = s.stops[0], s.stops[1:]
	}
	s.mu.Unlock()
	time.Sleep(stop)
	return ok, err
}

// What an answer grants is used within Life after the question, or asked for once
// more: whatever is asked for, and in whatever way.
func TestLeasesLateAnswer(t *testing.T) {
	l := limit.Limit{Count: 1000, Period: time.Second, Burst: 5000}
	k, other := limit.Ask{Key: "k", Limit: l, N: 1}, limit.Ask{Key: "other", Limit: l, N: 1}
	with := func(a limit.Ask, n, least int64) limit.Ask { a.N, a.Min = n, least; return a }
	debt := with(other, 5, 0)
	debt.Debt = true
	for name, c := range map[string]struct {
		asks  []limit.Ask
		late  time.Duration
		asked int   // keys
		fails bool  // it cannot be asked for again
		left  int64 // of k after it
	}{
		"in time":                 {[]limit.Ask{with(k, 1000, 0)}, 99 * ms, 1, false, 4099},
		"one":                     {[]limit.Ask{k}, 3 * time.Second, 2, false, 4999},
		"many":                    {[]limit.Ask{with(k, 1000, 0)}, 100 * ms, 2, false, 3100},
		"part of many":            {[]limit.Ask{with(k, 6000, 1)}, 3 * time.Second, 2, false, 0},
		"several":                 {[]limit.Ask{with(k, 1000, 0), other}, 3 * time.Second, 4, false, 4000},
		"with a peek":             {[]limit.Ask{with(k, 1000, 0), with(other, 0, 0)}, 3 * time.Second, 4, false, 4000},
		"with a peek first":       {[]limit.Ask{with(other, 0, 0), with(k, 1000, 0)}, 3 * time.Second, 4, false, 4000},
		"with a refund":           {[]limit.Ask{with(k, 1000, 0), with(other, -1, 0)}, 3 * time.Second, 2, true, 5000},
		"with a debt":             {[]limit.Ask{with(k, 1000, 0), debt}, 3 * time.Second, 2, true, 5000},
		"a debt alone":            {[]limit.Ask{debt}, 3 * time.Second, 1, false, 5000},
		"a refund alone":          {[]limit.Ask{with(other, -1, 0)}, 3 * time.Second, 1, false, 5000},
		"what is not limited":     {[]limit.Ask{{Key: "free", N: 1}}, 3 * time.Second, 1, false, 5000},
		"more than there ever is": {[]limit.Ask{with(k, 6000, 0)}, 3 * time.Second, 1, false, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &stopped{stops: []time.Duration{c.late}}
				d := make([]limit.Decision, len(c.asks))
				ok, err := (&store.Leases{Store: s}).Take(t.Context(), c.asks, d)
				if (err != nil) != c.fails || len(s.asked) != c.asked || c.fails && (ok || d[0] != limit.Decision{}) {
					t.Errorf("Take(%+v) = %v, %v, %+v after %d questions, want an error: %v, after %d", c.asks, ok, err, d, len(s.asked), c.fails, c.asked)
				}
				if now, _ := s.TakeOne(t.Context(), limit.Ask{Key: "k", Limit: l}); now.Remaining != c.left {
					t.Errorf("Take(%+v): %d are left, want %d", c.asks, now.Remaining, c.left)
				}
			})
		})
	}
}

// Many processes that are stopped with questions in flight use, when they go on,
// no more than the bound: also if they are stopped again and again.
func TestLeasesStopped(t *testing.T) {
	for _, n := range []int64{1, 10, 1000} {
		for _, times := range []int{1, 2} {
			bubble.Test(t, func(t *testing.T) {
				l := limit.Limit{Count: 1000, Period: time.Second, Burst: 1000}
				var m memory.Store
				var mu sync.Mutex
				used := map[time.Time]int64{}
				began := time.Now()
				var all sync.WaitGroup
				for i := range 40 {
					p := &store.Leases{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
						ok, err := m.Take(ctx, a, d)
						for stop := range times { // they go on together
							if at := began.Add(time.Duration(stop+1) * 3 * time.Second); time.Now().Before(at) {
								time.Sleep(time.Until(at))
								break
							}
						}
						return ok, err
					})}
					all.Go(func() {
						time.Sleep(time.Duration(i) * 50 * ms)
						if d, err := store.Take(t.Context(), p, "k", l, n); err == nil && d.OK {
							mu.Lock()
							used[time.Now()] += d.N
							mu.Unlock()
						}
					})
				}
				all.Wait()
				for at, n := range used {
					if n > 1000+100 {
						t.Errorf("%d were used at once, %v after the start, want at most 1000 and 100", n, at.Sub(began))
					}
				}
			})
		}
	}
}

// What is held while the Store is asked about another key is not used when it has
// become too old meanwhile; what the Store has granted for that one is kept.
func TestLeasesHeldTooLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(stopped)
		l := &store.Leases{Store: s}
		for range 4 { // the last is for more
			store.Take(t.Context(), l, "hot", tenThousand, 1)
		}
		time.Sleep(90 * ms)
		s.stops, s.asked = []time.Duration{20 * ms}, nil
		few := limit.Limit{Count: 10, Period: time.Hour}
		d := make([]limit.Decision, 2)
		ok, err := l.Take(t.Context(), []limit.Ask{{Key: "hot", Limit: tenThousand, N: 1}, {Key: "few", Limit: few, N: 2}}, d)
		if !ok || err != nil || !d[0].OK || d[0].N != 1 || !d[1].OK || d[1].N != 2 || d[1].Remaining != 8 {
			t.Errorf("Take of both = %v, %v, %+v, want them to pass", ok, err, d)
		}
		if len(s.asked) != 2 || s.asked[0].Key != "few" || s.asked[1].Key != "hot" {
			t.Errorf("the store was asked %+v, want of few, and then of hot as its lease had ended", s.asked)
		}
	})
}

// A store that takes longer than Life cannot be used ahead: that is an error, not
// a refusal, after two questions.
func TestLeasesTooFar(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &stopped{stops: []time.Duration{150 * ms, 150 * ms, 150 * ms}}
		l := &store.Leases{Store: s}
		if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); err == nil || d.OK || len(s.asked) != 2 {
			t.Errorf("Take = %+v, %v after %d questions, want an error after 2", d, err, len(s.asked))
		}
		if d, err := store.Take(t.Context(), l, "k", tenThousand, 1); err != nil || !d.OK || len(s.asked) != 4 {
			t.Errorf("Take = %+v, %v after %d questions, want it to pass by the second of its own", d, err, len(s.asked)-2)
		}
	})
}
