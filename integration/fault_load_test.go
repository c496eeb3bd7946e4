package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// A load is callers that ask a store without end, each with a deadline.
type load struct {
	store    store.Store
	keys     []string // caller i asks about keys[i%len(keys)]
	limit    limit.Limit
	callers  int
	deadline time.Duration
}

// pause is how long a caller rests between two calls.
const pause = time.Millisecond

// A call is one that a load has made.
type call struct {
	key   string
	began time.Time
	took  time.Duration
	d     limit.Decision
	err   error
}

func (c call) end() time.Time { return c.began.Add(c.took) }

// calls are all of a load in the order of their ends, and how late timers were
// beside them.
type calls struct {
	all  []call
	late time.Duration // the worst of control timers, one for each caller
}

// add adds what another load has made.
func (c *calls) add(more calls) { c.all, c.late = append(c.all, more.all...), max(c.late, more.late) }

// run keeps the load up while during runs.
func (l load) run(t *testing.T, during func()) calls {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	made := make([][]call, l.callers)
	late := make([]time.Duration, l.callers)
	for i := range l.callers {
		all.Go(func() { made[i] = l.caller(ctx, l.keys[i%len(l.keys)]) })
		all.Go(func() { late[i] = lateness(ctx) })
	}
	during()
	stop()
	all.Wait()
	c := calls{slices.Concat(made...), slices.Max(late)}
	slices.SortFunc(c.all, func(a, b call) int { return a.end().Compare(b.end()) })
	return c
}

// caller asks until ctx ends. A call is not ended with it.
func (l load) caller(ctx context.Context, key string) (made []call) {
	for ctx.Err() == nil {
		c := call{key: key, began: time.Now()}
		limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.began.Add(l.deadline))
		c.d, c.err = store.Take(limited, l.store, key, l.limit, 1)
		c.took = time.Since(c.began)
		cancel()
		made = append(made, c)
		rest(ctx, pause)
	}
	return made
}

// rest waits, at most until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// lateness is by how much the latest of many timers was late.
func lateness(ctx context.Context) (worst time.Duration) {
	for ctx.Err() == nil {
		due := time.Now().Add(5 * time.Millisecond)
		limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), due)
		<-limited.Done()
		worst = max(worst, time.Since(due))
		cancel()
	}
	return worst
}

// inTime checks that of 1000 calls, or of fewer, all but one are back 5 ms after
// their deadline, and what timers were late by beside them: thrice, as what ends
// a call wakes one goroutine after another.
func (c calls) inTime(t *testing.T, deadline time.Duration) {
	t.Helper()
	if len(c.all) < 2 {
		t.Fatalf("%d calls were made, want many", len(c.all))
	}
	took := make([]time.Duration, len(c.all))
	for i, one := range c.all {
		took[i] = one.took
	}
	slices.Sort(took)
	got := took[len(took)-1-max(1, len(took)/1000)]
	want := deadline + 5*time.Millisecond + 3*c.late
	if raced {
		want += 10 * time.Second
	}
	if got > want {
		t.Errorf("of %d calls with a deadline of %v one in 1000 took over %v, want at most %v (timers were up to %v late)",
			len(c.all), deadline, got, want, c.late)
	}
	t.Logf("%d calls; p50 %v, p99.9 %v, longest %v; timers up to %v late",
		len(took), took[len(took)/2], got, took[len(took)-1], c.late)
}

// outage is how long no call had an answer, from an instant on, and the last
// error. It is the time until the first answer to a call that began later.
func (c calls) outage(t *testing.T, from time.Time) (d time.Duration, errors int, last error) {
	t.Helper()
	for _, one := range c.all {
		if one.began.Before(from) {
			continue
		}
		if one.err == nil {
			return one.end().Sub(from), errors, last
		}
		errors, last = errors+1, one.err
	}
	t.Fatalf("the store never answered again; %d calls failed, the last with: %v", errors, last)
	return 0, 0, nil
}

// last is how long after an instant the last answer was given.
func (c calls) last(from time.Time) (d time.Duration) {
	for _, one := range c.all {
		if one.err == nil {
			d = max(d, one.end().Sub(from))
		}
	}
	return d
}

// gap is the longest time in which nothing was answered.
func (c calls) gap() (longest time.Duration) {
	var before time.Time
	for _, one := range c.all {
		if one.err != nil {
			continue
		}
		if !before.IsZero() {
			longest = max(longest, one.end().Sub(before))
		}
		before = one.end()
	}
	return longest
}

// failures are how many calls had no answer, and some of the errors.
func (c calls) failures() (n int, some string) {
	seen := map[string]int{}
	for _, one := range c.all {
		if one.err != nil {
			n++
			seen[one.err.Error()]++
		}
	}
	for text, times := range seen {
		if some += fmt.Sprintf("\n%6d x %s", times, text); len(some) > 2000 {
			break
		}
	}
	return n, some
}

// admitted is how many calls about a key were allowed.
func (c calls) admitted(key string) (n int64) {
	for _, one := range c.all {
		if one.key == key && one.err == nil && one.d.OK {
			n++
		}
	}
	return n
}

// within checks that in no interval of whatever length more was admitted than
// a burst, the refill and extra. Times are those at which the store decided.
func (c calls) within(t *testing.T, l limit.Limit, extra int64) {
	t.Helper()
	byKey := map[string][]time.Time{}
	for _, one := range c.all {
		if one.err == nil && one.d.OK {
			byKey[one.key] = append(byKey[one.key], one.d.At)
		}
	}
	for key, at := range byKey {
		slices.SortFunc(at, time.Time.Compare)
		got := level(at, l)
		if want := float64(l.Max()+extra) + 0.01; got > want {
			t.Errorf("%q: admitted up to %.2f above the refill of %v, want at most %.2f", key, got, l, want)
		}
	}
}

// level is the highest that a bucket which refills at the limit's rate was ever
// filled by what was admitted: the sup over all intervals of what was admitted
// in it less the refill.
func level(at []time.Time, l limit.Limit) (highest float64) {
	var now float64
	for i, when := range at {
		if i > 0 {
			now = max(0, now-float64(l.Count)*float64(when.Sub(at[i-1]))/float64(l.Period))
		}
		now++
		highest = max(highest, now)
	}
	return highest
}

func TestLevel(t *testing.T) {
	l := limit.Limit{Count: 10, Period: time.Second}
	var at []time.Time
	for i := range 20 { // ten at once, then ten at the rate
		at = append(at, time.Unix(0, 0).Add(max(0, time.Duration(i-9))*100*time.Millisecond))
	}
	if got := level(at, l); got != 10 {
		t.Errorf("level of a full burst and the refill = %v, want 10", got)
	}
	if got := level(append(at, at[19]), l); got != 11 {
		t.Errorf("level of one more = %v, want 11", got)
	}
}
