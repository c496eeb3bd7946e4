package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// near is how closely ours must agree with the SDK. The SDK rounds its sleeps
// down to nanoseconds, wakes a moment too early, and sleeps again.
const near = time.Microsecond

type throttledError struct{}

func (throttledError) Error() string     { return "slow down" }
func (throttledError) ErrorCode() string { return "ThrottlingException" }

// ticking lets a nanosecond pass whenever the SDK looks whether it is done,
// that is before each of its sleeps: time in a bubble stands still otherwise,
// and a sleep of 0 would repeat for ever.
type ticking struct{ context.Context }

func (t ticking) Done() <-chan struct{} {
	time.Sleep(time.Nanosecond)
	return t.Context.Done()
}

// awsEvent is something that a caller of the SDK did.
type awsEvent struct {
	at      time.Time
	worker  int
	what    string // asks, goes or ends
	verdict pace.Verdict
}

// awsTrace is what callers of one AdaptiveMode do.
type awsTrace struct {
	mode *retry.AdaptiveMode

	mu     sync.Mutex
	tokens float64 // of the server: 20 a second, 10 at most
	filled time.Time
	events []awsEvent
}

// serve is the server's decision. It fails now and then for other reasons.
func (a *awsTrace) serve(luck *rand.Rand) (pace.Verdict, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.tokens = min(a.tokens+20*now.Sub(a.filled).Seconds(), 10)
	a.filled = now
	switch {
	case a.tokens < 1:
		return pace.Throttled, throttledError{}
	case luck.Float64() < 0.03:
		return pace.Failed, errors.New("other")
	}
	a.tokens--
	return pace.Served, nil
}

func (a *awsTrace) note(worker int, what string, v pace.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, awsEvent{time.Now(), worker, what, v})
}

// call makes one attempt through the SDK's limiter.
func (a *awsTrace) call(t *testing.T, worker int, luck *rand.Rand) {
	a.note(worker, "asks", 0)
	release, err := a.mode.GetAttemptToken(ticking{t.Context()})
	if err != nil {
		t.Errorf("GetAttemptToken: %v", err)
		return
	}
	a.note(worker, "goes", 0)
	time.Sleep(time.Duration(luck.Int64N(int64(20 * time.Millisecond))))
	v, err := a.serve(luck)
	time.Sleep(time.Duration(luck.Int64N(int64(20 * time.Millisecond))))
	a.note(worker, "ends", v)
	if err := release(err); err != nil {
		t.Errorf("release: %v", err)
	}
}

// recordAWS runs workers that call one after the other, each calls times.
func recordAWS(t *testing.T, seed uint64, workers, calls int, think func(*rand.Rand, int) time.Duration) (events []awsEvent) {
	bubble.Test(t, func(t *testing.T) {
		a := &awsTrace{mode: retry.NewAdaptiveMode(), filled: time.Now()}
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				luck := rand.New(rand.NewPCG(seed, uint64(w)))
				for i := range calls {
					a.call(t, w, luck)
					if pause := think(luck, i); pause > 0 {
						time.Sleep(pause)
					}
				}
			})
		}
		all.Wait()
		events = a.events
	})
	return events
}

// replayAWS feeds ours what the SDK's callers did, and compares when each goes:
// when ours lets the next go, but not before anybody asks. With one caller the
// two agree. Of several, one that sleeps at the SDK may not notice that the
// rate rose; it may be overslept late, and is counted.
func replayAWS(t *testing.T, events []awsEvent, overslept time.Duration) (waited, throttled, late int) {
	t.Helper()
	ours := &peers.AWS{}
	asked, sent := map[int]time.Time{}, map[int]time.Time{}
	var last time.Time
	for i, e := range events {
		r := pace.Request{Since: asked[e.worker]}
		switch e.what {
		case "asks":
			asked[e.worker] = e.at
		case "goes":
			want := last // nobody went before the event before this
			if due := e.at.Add(ours.Wait(e.at, r)); due.After(want) {
				want = due
			}
			if d := e.at.Sub(want); d < -near || d > overslept {
				t.Fatalf("event %d, worker %d: the SDK lets it go at %v, ours at %v", i, e.worker, e.at, want)
			} else if d > near {
				late++
			}
			if e.at.Sub(r.Since) > time.Millisecond {
				waited++
			}
			ours.Start(e.at, r)
			sent[e.worker] = e.at
		case "ends":
			ours.Observe(e.at, pace.Outcome{Request: r, Sent: sent[e.worker], Report: pace.Report{Verdict: e.verdict}})
			if e.verdict == pace.Throttled {
				throttled++
			}
		}
		last = e.at
	}
	return waited, throttled, late
}

func TestAWSAgreesWithTheSDK(t *testing.T) {
	pauses := func(luck *rand.Rand, i int) time.Duration {
		if i%200 == 199 { // long enough to fill the bucket
			return time.Duration(luck.Int64N(int64(20 * time.Second)))
		}
		return 0
	}
	often := func(luck *rand.Rand, _ int) time.Duration {
		if luck.Float64() < 0.2 {
			return time.Duration(luck.Int64N(int64(time.Second)))
		}
		return 0
	}
	never := func(*rand.Rand, int) time.Duration { return 0 }
	for _, c := range []struct {
		name           string
		workers, calls int
		think          func(*rand.Rand, int) time.Duration
		overslept      time.Duration
	}{
		{"one worker", 1, 5000, pauses, near},
		{"one worker at odd times", 1, 5000, often, near},
		{"eight workers", 8, 600, never, 5 * time.Millisecond},
	} {
		for seed := range uint64(5) {
			events := recordAWS(t, seed, c.workers, c.calls, c.think)
			waited, throttled, late := replayAWS(t, events, c.overslept)
			all := c.workers * c.calls
			t.Logf("%s, seed %d: of %d calls %d waited, %d throttled, %d overslept", c.name, seed, all, waited, throttled, late)
			if waited < all/20 || throttled < 15 {
				t.Errorf("%s, seed %d: of %d calls %d waited, %d throttled: too few to tell", c.name, seed, all, waited, throttled)
			}
			if late > all/200 {
				t.Errorf("%s, seed %d: the SDK is late for %d of %d calls, want 1 in 200 at most", c.name, seed, late, all)
			}
		}
	}
}

// The rests are the SDK's: uniform up to 2, 4, 8 and 16 s, then 20 s.
func TestAWSRestsLikeTheSDK(t *testing.T) {
	backoff := retry.NewExponentialJitterBackoff(retry.DefaultMaxBackoff)
	for try := range 8 {
		var sdk, ours [2]time.Duration // sum and most
		for i := range 4000 {
			d, err := backoff.BackoffDelay(try+1, throttledError{})
			if err != nil {
				t.Fatal(err)
			}
			sdk = [2]time.Duration{sdk[0] + d, max(sdk[1], d)}
			r := pace.Request{Try: try, Luck: pace.Luck(i)}
			d = (&peers.AWS{Attempts: -1, Quota: -1}).Observe(time.Unix(1, 0), pace.Outcome{Request: r, Sent: time.Unix(0, 1), Report: pace.Report{Verdict: pace.Throttled}})
			ours = [2]time.Duration{ours[0] + d, max(ours[1], d)}
		}
		for k, what := range []string{"mean", "most"} {
			if d := float64(ours[k])/float64(sdk[k]) - 1; d < -0.1 || d > 0.1 {
				t.Errorf("retry %d: %s of the rests %v, the SDK's %v", try, what, ours[k], sdk[k])
			}
		}
	}
}
