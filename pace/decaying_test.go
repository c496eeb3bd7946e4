package pace_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// steady rests exactly: its jitter is too small to see.
var steady = pace.Backoff{Jitter: pace.PlusMinusJitter, Spread: 1e-17}

// The rest doubles with each throttled answer, whichever call it is of, up to
// the Cap; ten served ones halve it; what was sent before the last rise changes
// nothing.
func TestDecayingBackoff(t *testing.T) {
	const ms = time.Millisecond
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := pace.DecayingBackoff{Backoff: steady}
	d.Backoff.Cap = 500 * ms
	for i, c := range []struct {
		served    int // before
		sent, now time.Duration
		rest      time.Duration
		level     int
	}{
		{9, 0, 10 * ms, 100 * ms, 1},
		{0, 0, 11 * ms, 100 * ms, 1},        // sent before the level rose
		{0, 10 * ms, 20 * ms, 200 * ms, 2},  // sent as it rose
		{9, 30 * ms, 40 * ms, 400 * ms, 3},  // nine are not enough
		{0, 50 * ms, 60 * ms, 500 * ms, 4},  // the Cap
		{0, 70 * ms, 80 * ms, 500 * ms, 4},  // no further
		{9, 0, 81 * ms, 500 * ms, 4},        // not enough, but counted
		{1, 0, 82 * ms, 400 * ms, 3},        // ten
		{25, 0, 83 * ms, 100 * ms, 1},       // two steps, and five left over
		{5, 90 * ms, 91 * ms, 100 * ms, 1},  // at zero, so it begins with the first
		{10, 90 * ms, 92 * ms, 100 * ms, 1}, // at zero: what came before has been made up for
		{1000, 93 * ms, 94 * ms, 100 * ms, 1},
	} {
		for range c.served {
			d.Served()
		}
		rest := d.Throttled(start.Add(c.now), start.Add(c.sent), pace.Luck(i))
		if rest != c.rest || d.Level() != c.level {
			t.Errorf("%d: after %d served: rest %v, level %d; want %v, %d", i, c.served, rest, d.Level(), c.rest, c.level)
		}
	}
}

// The zero value rests for up to 100 ms, 200 ms and so on, at random; where there
// is no Cap the level ends at 64.
func TestDecayingBackoffZero(t *testing.T) {
	var d pace.DecayingBackoff
	different := map[time.Duration]bool{}
	for i := range 20 {
		rest := d.Throttled(time.Time{}, time.Time{}, pace.Luck(i))
		if most := min(100*time.Millisecond<<i, 20*time.Second); rest < 0 || rest > most {
			t.Errorf("refusal %d: rest %v, want up to %v", i, rest, most)
		}
		different[rest] = true
	}
	if len(different) < 20 || d.Level() != 9 { // 100 ms × 2^8 is above 20 s
		t.Errorf("%d different rests of 20, level %d; want 20 and 9", len(different), d.Level())
	}
	d = pace.DecayingBackoff{Backoff: pace.Backoff{Cap: -1, Factor: 1}}
	for range 100 {
		d.Throttled(time.Time{}, time.Time{}, 0)
	}
	if d.Level() != 64 {
		t.Errorf("level %d, want 64", d.Level())
	}
}

// In a Gate it rests the calls that were throttled, gives them up after its
// Tries, and learns nothing from what failed or never left.
func TestDecayingBackoffInAGate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := &pace.DecayingBackoff{Backoff: steady}
	d.Backoff.Tries = 2
	g := pace.Gate{Control: d}
	end := func(v pace.Verdict) (retry bool, wait time.Duration) {
		var k pace.Ticket
		g.Enter(now, &k)
		if first, _ := g.Next(now); first != &k {
			t.Fatal("a call that was not throttled waits")
		}
		retry = g.Done(now, &k, pace.Report{Verdict: v})
		g.Leave(now, &k)
		return retry, k.Forecast
	}
	for i, want := range []time.Duration{100, 200, 400} {
		if retry, wait := end(pace.Throttled); !retry || wait != want*time.Millisecond {
			t.Errorf("call %d: retry %v after %v; want after %v ms", i, retry, wait, int64(want))
		}
	}
	end(pace.Failed)
	end(pace.Ignored)
	if d.Level() != 3 {
		t.Errorf("level %d after a failure, want 3", d.Level())
	}
	for range 30 {
		end(pace.Served)
	}
	if d.Level() != 0 {
		t.Errorf("level %d after 30 served, want 0", d.Level())
	}
	var k pace.Ticket
	g.Enter(now, &k)
	g.Next(now)
	g.Done(now, &k, pace.Report{Verdict: pace.Throttled})
	now = now.Add(time.Second)
	g.Next(now)
	if g.Done(now, &k, pace.Report{Verdict: pace.Throttled}) {
		t.Error("retried after two Tries")
	}
}

// One backoff that a program's calls share, in a loop of its own.
func ExampleDecayingBackoff() {
	var shared pace.DecayingBackoff // guard it by a mutex if calls overlap
	shared.Backoff = steady         // without jitter, to print the same each time
	for range 3 {
		now := time.Now() // when the answer came; it was sent then too
		fmt.Println("throttled, rest", shared.Throttled(now, now, 0))
	}
	for range 20 {
		shared.Served()
	}
	now := time.Now()
	fmt.Println("after 20 served", shared.Throttled(now, now, 0))
	// Output:
	// throttled, rest 100ms
	// throttled, rest 200ms
	// throttled, rest 400ms
	// after 20 served 200ms
}
