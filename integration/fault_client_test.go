package integration

import (
	"errors"
	"net/url"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/jump"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// client starts a process that makes calls of all kinds, and waits until it
// does.
func client(t *testing.T, o Orders) *rig.Self {
	t.Helper()
	c := rig.Again(t)
	c.Ask(t, "Client.Begin", o, new(bool))
	goesOn(t, c)
	return c
}

// goesOn waits until calls of all kinds are answered that begin now.
func goesOn(t *testing.T, c *rig.Self) {
	t.Helper()
	c.Ask(t, "Client.GoesOn", 3, new(bool))
}

// TestFaultClientFrozen: a process that asks stores stands still, for longer
// than anything it waits for, and goes on.
func TestFaultClientFrozen(t *testing.T) {
	t.Parallel()
	redis := rig.NewProxy(t, rig.Redis(t).Addr)
	at, err := url.Parse(rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	postgres := rig.NewProxy(t, at.Host)
	at.Host = postgres.Addr
	o := Orders{Redis: redis.Addr, Postgres: at.String(), Deadline: time.Second}
	c := client(t, o)
	redis.Set(rig.Fault{Stall: true})
	postgres.Set(rig.Fault{Stall: true})
	rest(t.Context(), 100*time.Millisecond) // so that calls of each kind are under way
	c.Freeze(t)
	frozen := monotonic()
	redis.Heal() // they are answered while it cannot hear it
	postgres.Heal()
	rest(t.Context(), 3*o.Deadline)
	thawed := monotonic()
	c.Thaw()
	goesOn(t, c)
	var made []Made
	c.Ask(t, "Client.End", 0, &made)

	inTime(t, o, made, func(m Made) time.Duration { // that it was awake
		return m.Ended - m.Began - max(0, min(m.Ended, thawed)-max(m.Began, frozen))
	})
	admitted(t, made, 0)
	sane(t, made)
	woken(t, made, frozen, thawed)
}

// woken checks that the calls that were under way ended soon after the process
// was thawed: all their deadlines had passed, but for those that are paced.
func woken(t *testing.T, made []Made, frozen, thawed time.Duration) {
	t.Helper()
	under := calls{late: lateIn(made, func(m Made) time.Duration {
		if m.Began < thawed {
			return 0
		}
		return m.Ended - m.Began
	})}
	of := map[string]int{}
	for _, m := range made {
		if m.Began < frozen && m.Ended > thawed && m.Kind != "paced" {
			under.all = append(under.all, m.call(m.Ended-thawed))
			of[m.Kind]++
		}
	}
	t.Logf("under way were %v", of)
	for _, kind := range []string{"take", "queue", "fleet", "sql", "minute"} {
		if of[kind] == 0 {
			t.Errorf("no call of the kind %q was under way, want some", kind)
		}
	}
	under.inTime(t, under.slack()+50*time.Millisecond)
}

// TestFaultClientJumps: the wall clock of a process that asks stores is put
// forward and back, and it does not notice. At last it goes on after an hour in
// which it stood still and with it its monotonic clock, as a virtual machine
// does that was suspended.
func TestFaultClientJumps(t *testing.T) {
	t.Parallel()
	if err := jump.Wall(0); errors.Is(err, jump.ErrElsewhere) {
		t.Skip("NO CLOCK, this is NOT tested:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	clock := rig.NewClock(t)
	o := Orders{Redis: clock.Redis(t).Addr, Postgres: clock.Postgres(t).URL, Deadline: sure}
	c := client(t, o)
	jumps := []time.Duration{
		-time.Hour, time.Hour, -5 * time.Minute, 5 * time.Minute, -24 * time.Hour, 24 * time.Hour, 0,
	}
	for _, ahead := range jumps {
		c.Ask(t, "Client.Jump", ahead, new(bool))
		goesOn(t, c)
	}
	slept := monotonic()
	clock.Shift(t, time.Hour)
	c.Ask(t, "Client.Jump", time.Hour, new(bool))
	goesOn(t, c)
	var made []Made
	c.Ask(t, "Client.End", 0, &made)

	inTime(t, o, made, func(m Made) time.Duration { return m.Ended - m.Began })
	admitted(t, made, slept)
	sane(t, made)
	oneClock(t, made, slept)
	calendar(t, made, len(jumps)+1)
	var all calls
	for _, m := range made {
		all.all = append(all.all, m.call(0))
	}
	if n, some := all.failures(); n > 0 {
		t.Errorf("%d of %d calls failed, want none:%s", n, len(made), some)
	}
}

func byKind(made []Made) map[string][]Made {
	all := map[string][]Made{}
	for _, m := range made {
		all[m.Kind] = append(all[m.Kind], m)
	}
	return all
}

// call is m as one that took so long.
func (m Made) call(took time.Duration) call {
	c := call{key: m.Kind, began: time.Unix(0, int64(m.Began)), took: took, d: m.D}
	if m.Err != "" {
		c.err = failure(m.Err)
	}
	return c
}

type failure string

func (f failure) Error() string { return string(f) }

// lateIn is how late the timers of a client rang. took is how long they took.
func lateIn(made []Made, took func(Made) time.Duration) (late time.Duration) {
	for _, m := range made {
		if m.Kind == "timer" {
			late = max(late, took(m)-ring)
		}
	}
	return late
}

// inTime checks that no call took longer than it may.
func inTime(t *testing.T, o Orders, made []Made, took func(Made) time.Duration) {
	t.Helper()
	of, late := byKind(made), lateIn(made, took)
	for name, k := range kinds(o.Deadline, nil, nil, nil, nil) {
		c := calls{late: late}
		for _, m := range of[name] {
			c.all = append(c.all, m.call(took(m)))
		}
		failed, _ := c.failures()
		t.Logf("%s: %d failed", name, failed)
		c.inTime(t, k.most+c.slack())
	}
}

// admitted checks that in no time more was admitted than a burst and the refill,
// by the clock of the store, and by that of the client. From slept on the clock
// of the stores was put forward, unless it is zero.
func admitted(t *testing.T, made []Made, slept time.Duration) {
	t.Helper()
	for name, l := range buckets {
		var c calls
		var spans []span
		for _, m := range byKind(made)[name] {
			if m.Err != "" || !m.D.OK {
				continue
			}
			c.all = append(c.all, m.call(0))
			s := span{m.Began, m.Ended}
			if slept != 0 && name != "memory" && name != "starts" { // those do not ask the store
				s.from, s.to = s.awake(slept)
			}
			if name == "fleet" {
				s.from = s.to
			}
			spans = append(spans, s)
		}
		rate, extra := float64(l.Count)/l.Period.Seconds(), 0.01
		switch name {
		case "fleet": // what was bought may be kept for so long
			extra += rate * pace.MaxIdleCredit.Seconds()
		case "lease":
			extra += rate * limit.DefaultLife.Seconds()
		case "starts": // as pace.Fixed says, and Throttle of timers that are late
			extra += 2 + rate*0.02
		default:
			c.within(t, l, 0)
		}
		got, want := crowd(spans, l), float64(l.Max())+extra
		if got > want || len(spans) == 0 {
			t.Errorf("%s: %.2f were admitted above the refill of %v, want at most %.2f", name, got, l, want)
		}
		t.Logf("%s: of %d, %.2f above the refill", name, len(spans), got)
	}
}

// A span is the time in which a call was admitted, at some instant.
type span struct{ from, to time.Duration }

// awake is the span by a clock that was put forward by an hour.
func (s span) awake(slept time.Duration) (from, to time.Duration) {
	if s.from >= slept {
		s.from += time.Hour
	}
	if s.to >= slept {
		s.to += time.Hour
	}
	return s.from, s.to
}

// crowd is the most that was surely admitted in any time above the refill in it.
func crowd(all []span, l limit.Limit) (most float64) {
	slices.SortFunc(all, func(a, b span) int { return int(b.from - a.from) })
	var ends []time.Duration // of those that begin later, in order
	for _, s := range all {
		at := sort.Search(len(ends), func(i int) bool { return ends[i] >= s.to })
		ends = slices.Insert(ends, at, s.to)
		for i, end := range ends {
			most = max(most, float64(i+1)-float64(l.Count)*float64(end-s.from)/float64(l.Period))
		}
	}
	return most
}

// sane checks the times that were told.
func sane(t *testing.T, made []Made) {
	t.Helper()
	for name, l := range buckets {
		full := time.Duration(l.Max()) * l.Period / time.Duration(l.Count)
		most := full + time.Second // see the skew of package limit; and what a guard says without its store
		for _, m := range byKind(made)[name] {
			if m.Err == "" && (m.D.RetryAfter < 0 || m.D.RetryAfter > most || m.D.ResetAfter < 0 || m.D.ResetAfter > most) {
				t.Fatalf("%s: %+v, want waits from 0 to %v", name, m.D, most)
			}
		}
	}
}

// oneClock checks that each store went by one clock, which did not jump.
func oneClock(t *testing.T, made []Made, until time.Duration) {
	t.Helper()
	for name, all := range byKind(made) {
		least, most := time.Duration(-1<<63), time.Duration(1<<63-1) // that its clock is ahead of the monotonic one
		for _, m := range all {
			if m.Err == "" && m.Ended < until && !m.D.At.IsZero() && (name != "guard" || m.D.OK) {
				at := time.Duration(m.D.At.UnixNano())
				least, most = max(least, at-m.Ended), min(most, at-m.Began)
			}
		}
		if least > most+time.Second { // leases tell its time by when they asked
			t.Errorf("%s: decided by a clock that went by %v in no time", name, least-most)
		}
	}
}

// calendar checks that every window is that of the store's clock and has its
// count, and that a jump costs a few questions more, once.
func calendar(t *testing.T, made []Made, jumps int) {
	t.Helper()
	noticed := map[string]int{}
	for name, l := range calendars {
		used, left, more, most := map[time.Time]int64{}, map[time.Time]int64{}, 0, int64(0)
		for _, m := range byKind(made)[name] {
			begin := m.D.At.UTC().Truncate(l.Period)
			end := begin.Add(l.Period)
			used[begin] += m.D.N
			left[begin] = m.D.Remaining // the last, as there is one caller
			if m.D.At.Add(m.D.ResetAfter).Sub(end).Abs() > time.Microsecond {
				t.Fatalf("%s: %+v, want the window to end at %v", name, m.D, end)
			}
			if m.D.RetryAfter < 0 || m.D.RetryAfter > l.Period {
				t.Fatalf("%s: %+v, want to wait for no more than a window", name, m.D)
			}
			if most = max(most, m.Asked); m.Asked > 1 {
				more++
			}
		}
		for begin, n := range used {
			if n != l.Count-left[begin] {
				t.Errorf("%s: %d were admitted in the window of %v and %d are left, want %d together", name, n, begin, left[begin], l.Count)
			}
		}
		questions := mostAsked[name]
		if most > questions || more > jumps+2 { // at the first, and at the end of a window
			t.Errorf("%s: in %d jumps %d calls needed more than a question, up to %d, want up to %d", name, jumps, more, most, questions)
		}
		noticed[name] = more
		t.Logf("%s: %d calls needed more than one question, up to %d", name, more, most)
	}
	// One tells the other, and a jump is not noticed if both clocks are put forward
	// between two calls: on a busy machine that is more than one of them.
	if n := noticed["minute"] + noticed["day"]; n < jumps/2 {
		t.Errorf("of %d jumps %d were noticed: were there any?", jumps, n)
	}
}

// mostAsked is how many questions a call needs at most when a clock has jumped.
var mostAsked = map[string]int64{"minute": 2, "day": 2, "sql minute": 4, "sql day": 4}
