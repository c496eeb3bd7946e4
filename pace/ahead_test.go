package pace

import (
	"slices"
	"testing"
	"time"
)

// quick is a gate of one in flight, at whose server answers take 100 ms, with a call
// in flight.
func quick(t *testing.T) (g *Gate, now time.Duration, busy *Ticket) {
	t.Helper()
	g, now = taught(t, 1, 20, 100*ms)
	busy = enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	return g, now, busy
}

// next are those that start one after another, of which each has its answer at once.
func next(g *Gate, now time.Duration) (got []string) {
	for {
		k, _ := g.Next(at(now))
		if k == nil {
			return got
		}
		got = append(got, k.Owner.(string))
		g.Done(at(now), k, Report{})
	}
}

// A call that would be too late in its turn goes ahead of one that has more time, or
// all the time; but of two starts one at most does.
func TestHurriedGoesAhead(t *testing.T) {
	g, now, busy := quick(t)
	enter(t, g, now, "endless")
	hurried(t, g, now, "patient", time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		hurried(t, g, now, name, 250*ms)
	}
	now += 100 * ms
	g.Done(at(now), busy, Report{})
	if got, want := next(g, now), []string{"a", "endless", "b", "patient", "c"}; !slices.Equal(got, want) {
		t.Errorf("started: %v, want %v", got, want)
	}
}

// The one whose time ends first is the first to go ahead, whenever it came.
func TestHurriedByEnd(t *testing.T) {
	g, now, busy := quick(t)
	for _, name := range []string{"1", "2", "3"} {
		enter(t, g, now, name)
	}
	hurried(t, g, now, "late", 280*ms)
	hurried(t, g, now, "soon", 220*ms)
	hurried(t, g, now, "later", 290*ms)
	now += 100 * ms
	g.Done(at(now), busy, Report{})
	if got, want := next(g, now), []string{"soon", "1", "late", "2", "later", "3"}; !slices.Equal(got, want) {
		t.Errorf("started: %v, want %v", got, want)
	}
}

// All others start in their turn.
func TestNotAhead(t *testing.T) {
	for _, c := range []struct {
		name    string
		put     func(t *testing.T, g *Gate, now time.Duration)
		waited  time.Duration
		started []string
	}{
		{"it has time", func(t *testing.T, g *Gate, now time.Duration) { hurried(t, g, now, "other", 310*ms) }, 100 * ms, []string{"first", "other"}},
		{"it is too late", func(t *testing.T, g *Gate, now time.Duration) { hurried(t, g, now, "other", 190*ms) }, 100 * ms, []string{"first", "other"}},
		{"it was too late", func(t *testing.T, g *Gate, now time.Duration) {
			hurried(t, g, now, "gone", 190*ms)
			hurried(t, g, now, "other", 250*ms)
		}, 100 * ms, []string{"other", "first", "gone"}},
		{"it left", func(t *testing.T, g *Gate, now time.Duration) {
			g.Leave(at(now), hurried(t, g, now, "gone", 220*ms))
			hurried(t, g, now, "other", 250*ms)
		}, 100 * ms, []string{"other", "first"}},
		{"it costs too much", func(t *testing.T, g *Gate, now time.Duration) {
			k := hurried(t, g, now, "other", 250*ms)
			g.Leave(at(now), k)
			k.Cost = 3
			g.Enter(at(now), k)
			credit := &Credit{}
			credit.Add(at(now+100*ms), 1)
			g.Control = credit
		}, 100 * ms, []string{"first"}},
		{"of another caller", func(t *testing.T, g *Gate, now time.Duration) {
			g.Enter(at(now), &Ticket{Owner: "other", Key: "key", End: at(now + 250*ms)})
		}, 100 * ms, []string{"first", "other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, now, busy := quick(t)
			enter(t, g, now, "first")
			c.put(t, g, now)
			now += c.waited
			g.Done(at(now), busy, Report{})
			if got := next(g, now); !slices.Equal(got, c.started) {
				t.Errorf("started: %v, want %v", got, c.started)
			}
		})
	}
}

// One that itself ends sooner is not put off, and nobody is before 16 calls have
// ended, as nothing is known of what calls need.
func TestNotPutOff(t *testing.T) {
	g, now, busy := quick(t)
	hurried(t, g, now, "young", 80*ms) // has too little time for this server from the start
	hurried(t, g, now, "other", 150*ms)
	g.Done(at(now), busy, Report{})
	if got, want := next(g, now), []string{"young", "other"}; !slices.Equal(got, want) {
		t.Errorf("started: %v, want %v", got, want)
	}
	g, now = taught(t, 1, 14, 100*ms)
	busy = enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	enter(t, g, now, "first")
	hurried(t, g, now, "other", 150*ms)
	g.Done(at(now), busy, Report{Verdict: Served})
	if got, want := next(g, now), []string{"first", "other"}; !slices.Equal(got, want) {
		t.Errorf("started: %v, want %v", got, want)
	}
}

// Where calls with as much time left have timed out, more is needed than what answers
// take.
func TestHurriedNeedsMore(t *testing.T) {
	g, now := taught(t, 1, 20, 100*ms, many(40, 220*ms)...)
	busy := enter(t, g, now, "busy")
	wantNames(t, g, now, "busy")
	enter(t, g, now, "first")
	hurried(t, g, now, "short", 200*ms)
	hurried(t, g, now, "other", 300*ms)
	g.Done(at(now), busy, Report{})
	if got, want := next(g, now), []string{"other", "first", "short"}; !slices.Equal(got, want) {
		t.Errorf("started: %v, want %v, as %v are needed", got, want, g.spare.known())
	}
}
