package throttle

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// script is calls that arrive, are answered, and give up at random, no two
// things at one instant.
func script(seed uint64, calls int) sim.Script {
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	var s sim.Script
	for range calls {
		c := sim.ScriptCall{Arrive: between(0, 30*time.Second)}
		switch random.IntN(5) {
		case 0:
			c.Cancel = c.Arrive + between(time.Millisecond, 20*time.Second)
		case 1: // a context with a deadline ends at it, too
			c.Deadline = c.Arrive + between(time.Second, 20*time.Second)
			c.Cancel = c.Deadline
		}
		for range random.IntN(4) {
			r := pace.Report{Verdict: pace.Throttled}
			switch random.IntN(4) {
			case 0:
				r.Verdict = pace.Failed
			case 1:
				r.After = between(time.Second, 3*time.Second)
			case 2:
				r.Unsure = true
			case 3:
				r.Hints.Remaining = pace.Some(random.Int64N(10))
			}
			c.Answers = append(c.Answers, sim.ScriptAnswer{Takes: between(10*time.Millisecond, time.Second), Report: r})
		}
		c.Answers = append(c.Answers, sim.ScriptAnswer{
			Takes:  between(10*time.Millisecond, time.Second),
			Report: pace.Report{Verdict: pace.Served, Hints: pace.Hints{Remaining: pace.Some(random.Int64N(20))}},
		})
		s.Calls = append(s.Calls, c)
	}
	return s
}

// live plays a script through a Throttle, in a bubble.
type live struct {
	Throttle
	began time.Time
	mu    sync.Mutex
	trace []sim.Step
}

func (l *live) add(call int, w sim.What) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trace = append(l.trace, sim.Step{At: time.Since(l.began), Call: call, What: w})
}

// call makes one call of the script.
func (l *live) call(id int, c sim.ScriptCall) {
	time.Sleep(c.Arrive)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.Deadline > 0 {
		ctx, cancel = context.WithDeadline(ctx, l.began.Add(c.Deadline))
		defer cancel()
	} else if c.Cancel > 0 {
		time.AfterFunc(c.Cancel-c.Arrive, cancel)
	}
	try := 0
	err := l.DoResult(ctx, func(ctx context.Context) Result {
		l.add(id, sim.Started)
		a := c.Answers[min(try, len(c.Answers)-1)]
		try++
		select {
		case <-time.After(a.Takes):
			return Result{Report: a.Report}
		case <-ctx.Done():
			return Result{Err: ctx.Err()}
		}
	})
	var gaveUp *Error
	switch {
	case ctx.Err() != nil:
		l.add(id, sim.Abandoned)
	case errors.As(err, &gaveUp) && gaveUp.Tries == 0:
		l.add(id, sim.Refused)
	default:
		l.add(id, sim.Ended)
	}
}

// sorted is a trace in an order that does not depend on who among those of one
// instant was noted first.
func sorted(trace []sim.Step) []sim.Step {
	slices.SortFunc(trace, func(a, b sim.Step) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return 10*(a.Call-b.Call) + int(a.What) - int(b.What)
	})
	return trace
}

// TestLiveIsAsSimulated plays scripts through the simulator's driver of the
// Gate and through a Throttle: the same things happen at the same instants, to
// the nanosecond, whatever needless questions the simulator asks.
func TestLiveIsAsSimulated(t *testing.T) {
	bubble.Long(t)
	seen := map[sim.What]int{}
	for _, name := range []string{
		"none", "backoff", "backoff-jitter", "fixed(rate=2)", "aimd", "gradual", "autosleeper", "adaptive", "adaptive-informed",
	} {
		policy, err := sim.ParsePolicy(name)
		if err != nil {
			t.Fatal(err)
		}
		for seed := uint64(1); seed <= 8; seed++ {
			s := script(seed, 60)
			gate := func() pace.Gate {
				return pace.Gate{Control: policy.New(), Tries: 6, MaxWaiting: 40, Backoff: &pace.AWS2026Backoff, Seed: seed}
			}
			want := sorted(sim.Replay(gate(), s))
			for _, step := range want {
				seen[step.What]++
			}
			s.Spurious = max(7*time.Millisecond, want[len(want)-1].At/50_000)
			if got := sorted(sim.Replay(gate(), s)); !slices.Equal(got, want) {
				t.Errorf("%s, seed %d: needless questions changed the trace", name, seed)
			}
			compare(t, name, seed, play(t, gate(), s), want)
		}
	}
	for _, w := range []sim.What{sim.Refused, sim.Started, sim.Ended, sim.Abandoned} {
		if seen[w] < 20 {
			t.Errorf("only %d calls were %v: the scripts try too little", seen[w], w)
		}
	}
}

// play plays a script live.
func play(t *testing.T, gate pace.Gate, s sim.Script) (trace []sim.Step) {
	bubble.Test(t, func(t *testing.T) {
		l := &live{began: time.Now()}
		l.Control, l.Tries, l.MaxWaiting, l.gate.Seed = gate.Control, gate.Tries, gate.MaxWaiting, gate.Seed
		l.MaxWait = -1
		if l.Control == nil {
			l.Control = pace.All(nil)
		}
		var all sync.WaitGroup
		for i, c := range s.Calls {
			all.Go(func() { l.call(i, c) })
		}
		all.Wait()
		if l.Waiting()+l.InFlight() != 0 {
			t.Errorf("%d waiting and %d in flight are left", l.Waiting(), l.InFlight())
		}
		trace = l.trace
	})
	return sorted(trace)
}

func compare(t *testing.T, name string, seed uint64, got, want []sim.Step) {
	t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%s, seed %d: step %d of %d differs: live %v, simulated %v",
				name, seed, i, len(want), got[min(i, len(got)):min(i+3, len(got))], want[i:min(i+3, len(want))])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s, seed %d: %d steps live, %d simulated", name, seed, len(got), len(want))
	}
}
