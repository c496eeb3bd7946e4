package throttle_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// toldReset is a limit that states what remains, and when it is unused again in whole seconds, and
// neither its rate nor its size, as many services do.
type toldReset struct {
	limit      limit.Limit
	rtt        time.Duration
	retryAfter bool // stated

	mu      sync.Mutex
	state   limit.State
	refused int
}

func (b *toldReset) answer(context.Context) throttle.Result {
	time.Sleep(b.rtt / 2)
	b.mu.Lock()
	var d limit.Decision
	b.state, d = limit.Take(b.state, time.Now(), limit.Ask{Limit: b.limit, N: 1})
	r := pace.Report{Verdict: pace.Served}
	r.Hints = pace.Hints{Remaining: pace.Some(d.Remaining), Reset: pace.Some(whole(d.ResetAfter))}
	if !d.OK {
		b.refused++
		if r.Verdict = pace.Throttled; b.retryAfter {
			r.After = whole(d.RetryAfter)
		}
	}
	b.mu.Unlock()
	time.Sleep(b.rtt / 2)
	return throttle.Result{Report: r}
}

func whole(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// A job of a client alone spends a full bucket at once and goes on at its rate, by what remains and
// by when the bucket would be full: that is its policy, though it does not say so.
func TestJobOnABucketThatTellsWhenItIsFull(t *testing.T) {
	for _, n := range []int64{100, 500, 2000} {
		for _, retryAfter := range []bool{false, true} {
			for _, rtt := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond} {
				bubble.Test(t, func(t *testing.T) {
					server := &toldReset{limit: limit.Limit{Count: n, Period: time.Minute, Burst: n}, rtt: rtt, retryAfter: retryAfter}
					var th throttle.Throttle
					calls, least := int(n+n/2), 30*time.Second+rtt
					took := job(t, calls, func() error { return th.DoResult(t.Context(), server.answer) })
					t.Logf("%d/min, retry-after %v, %v away: %d calls took %v, %d refused", n, retryAfter, rtt, calls, took, server.refused)
					if took > least*3/2 || server.refused > calls/10 {
						t.Errorf("%d/min, retry-after %v, %v away: %d calls took %v and %d were refused, want half more than %v at most, and a tenth", n, retryAfter, rtt, calls, took, server.refused, least)
					}
				})
			}
		}
	}
}

// A client alone uses windows of a second or two, whose resets in whole seconds do not name their
// ends, nearly as well as where their length is stated.
func TestBriefWindowsToldInWholeSeconds(t *testing.T) {
	bubble.Long(t)
	for _, l := range []limit.Limit{
		{Kind: limit.FixedWindow, Count: 300, Period: time.Second},
		{Kind: limit.FixedWindow, Count: 50, Period: time.Second},
		{Kind: limit.FixedWindow, Count: 50, Period: 2 * time.Second},
		{Kind: limit.FixedWindow, Count: 300, Period: 2 * time.Second},
	} {
		var used, refused []float64
		for range 5 {
			bubble.Test(t, func(t *testing.T) {
				const windows = 20
				server := &toldReset{limit: l, rtt: 50 * time.Millisecond}
				var th throttle.Throttle
				time.Sleep(300 * time.Millisecond)
				calls := windows * int(l.Count)
				took := job(t, calls, func() error { return th.DoResult(t.Context(), server.answer) })
				used = append(used, (windows-1)*l.Period.Seconds()/took.Seconds())
				refused = append(refused, float64(server.refused)/float64(calls))
			})
		}
		slices.Sort(used)
		slices.Sort(refused)
		t.Logf("%v: %.2f used, %.3f refused", l, used[2], refused[2])
		if used[2] < 0.68 || refused[2] > 0.05 {
			t.Errorf("%v: %.2f used and %.3f refused, want 0.68 at least and 0.05 at most", l, used[2], refused[2])
		}
	}
}
