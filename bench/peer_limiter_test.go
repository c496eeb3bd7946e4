package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/influxdata/tdigest"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// limited is a server behind failsafe-go's limiter and its model.
type limited struct {
	original adaptivelimiter.AdaptiveLimiter[any]
	model    *peers.FailsafeLimiter
	flying   []permitted
	luck     *rand.Rand
	base     time.Duration // what a request takes
	servers  int           // how many it serves at a time
}

// permitted is a request in flight.
type permitted struct {
	permit    adaptivelimiter.Permit
	sent, due time.Time
}

// start sends a request if both let it, or says that they differ.
func (l *limited) start() (sent, agree bool) {
	now := time.Now()
	permit, ok := l.original.TryAcquirePermit()
	wait := l.model.Wait(now, pace.Request{Since: now})
	if ok != (wait <= 0) {
		return false, false
	}
	if !ok {
		return false, wait == pace.Never
	}
	l.model.Start(now, pace.Request{Since: now})
	takes := time.Duration((0.9 + 0.2*l.luck.Float64()) * float64(l.base))
	if over := len(l.flying) + 1 - l.servers; over > 0 { // in line at the server
		takes += time.Duration(over) * l.base / time.Duration(l.servers)
	}
	l.flying = append(l.flying, permitted{permit, now, now.Add(takes)})
	return true, true
}

// end sleeps until the next request ends. A few are cancelled.
func (l *limited) end() {
	next := 0
	for i, f := range l.flying {
		if f.due.Before(l.flying[next].due) {
			next = i
		}
	}
	f := l.flying[next]
	l.flying = slices.Delete(l.flying, next, next+1)
	time.Sleep(time.Until(f.due))
	o := pace.Outcome{Sent: f.sent, Report: pace.Report{Verdict: pace.Verdict(1 + l.luck.IntN(3))}}
	if l.luck.IntN(50) == 0 {
		o.Verdict = pace.Ignored
		f.permit.Drop()
	} else {
		f.permit.Record()
	}
	l.model.Observe(time.Now(), o)
}

// Its limit is the same after each of many requests, as they take longer and
// shorter, for load and for other reasons, under more and fewer callers.
func TestFailsafeLimiterAgrees(t *testing.T) {
	bubble.Long(t)
	low, high := 200, 0
	seeds := uint64(12)
	if raced {
		seeds = 4
	}
	for seed := range seeds {
		bubble.Test(t, func(t *testing.T) {
			l := &limited{original: adaptivelimiter.NewWithDefaults[any](), model: &peers.FailsafeLimiter{
				NewDigest: func() peers.Digest { return tdigest.NewWithCompression(100) },
			}}
			l.luck = rand.New(rand.NewPCG(seed, 6))
			l.base, l.servers = 500*time.Millisecond, 20+int(seed%2)*280 // little room, or room for all
			callers, refused, changed := 300, 0, 0
			for i := range 80_000 {
				if i >= 40_000 && i%2000 == 0 {
					l.base = time.Duration(math.Exp(l.luck.Float64() * 24)) // 1 ns to 26 s
					l.servers, callers = 1+l.luck.IntN(100), 1+l.luck.IntN(300)
				}
				for len(l.flying) < callers {
					sent, agree := l.start()
					if !agree {
						t.Fatalf("seed %d, event %d: one lets it start, the other not; the model's limit is %d, the original's %d", seed, i, l.model.Limit(), l.original.Limit())
					}
					if !sent {
						refused++
						break
					}
				}
				was := l.model.Limit()
				l.end()
				got, want := l.model.Limit(), l.original.Limit()
				if got != want {
					t.Fatalf("seed %d, event %d: the model's limit is %d, the original's %d", seed, i, got, want)
				}
				if got != was {
					changed++
				}
				low, high = min(low, got), max(high, got)
			}
			t.Logf("seed %d: %d changes of the limit, %d requests found it in use", seed, changed, refused)
			if changed < 50 || refused < 500 {
				t.Errorf("seed %d: %d changes, %d refused: too few to tell", seed, changed, refused)
			}
		})
	}
	if t.Logf("the limit went from %d to %d", low, high); low > 1 || high < 200 {
		t.Errorf("the limit went from %d to %d only: too little to tell", low, high)
	}
}

// With a higher bound than the default it is the same, too, up to where the steps
// are three.
func TestFailsafeLimiterAgreesBeyond(t *testing.T) {
	const most = 1300
	least, events := 1000, 300_000
	if raced {
		least, events = 200, 30_000
	}
	bubble.Test(t, func(t *testing.T) {
		l := &limited{
			original: adaptivelimiter.NewBuilder[any]().WithLimits(1, most, 20).Build(),
			model: &peers.FailsafeLimiter{
				NewDigest: func() peers.Digest { return tdigest.NewWithCompression(100) }, Most: most,
			},
			luck: rand.New(rand.NewPCG(1, 7)), base: 500 * time.Millisecond, servers: math.MaxInt,
		}
		high := 0
		for i := range events {
			for len(l.flying) < 270 { // a fifth of the limit is enough for it to grow
				sent, agree := l.start()
				if !agree {
					t.Fatalf("event %d: one lets it start, the other not; the model's limit is %d, the original's %d", i, l.model.Limit(), l.original.Limit())
				}
				if !sent {
					break
				}
			}
			l.end()
			got, want := l.model.Limit(), l.original.Limit()
			if got != want {
				t.Fatalf("event %d: the model's limit is %d, the original's %d", i, got, want)
			}
			high = max(high, got)
		}
		if t.Logf("the limit went up to %d", high); high < least || high > most {
			t.Errorf("the limit went up to %d, want %d to %d, or this tells too little", high, least, most)
		}
	})
}
