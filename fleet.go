package throttle

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// Fleet is a limit that callers in many processes keep to together: each try is
// paid for from a Store that all of them share, whatever else paces it. Who
// waits asks for as many at once as wait here and may start within half of
// [pace.MaxIdleCredit], so that busy processes need few questions, and no process holds
// what it does not use for longer than [pace.MaxIdleCredit]. [Throttle.Try] never waits
// for an answer, so that it starts only what has been paid for already.
//
// When the Store cannot be asked, each goes on by itself, paced by its
// [Throttle.Control] alone, and asks again after a second, and after twice as
// long each time, up to half a minute. What comes more than 20 ms after the
// Timeout, a grant or an error, is passed over, once in a row, and the Store is
// asked anew: this process may have stood still.
type Fleet struct {
	// Store is where the limit is kept. If nil, there is none.
	Store store.Store
	// Key is what it is kept under.
	Key string
	// Limit is what all may start together, in the unit of [CallOptions.Cost].
	Limit limit.Limit
	// Timeout bounds a question, and with it the life of the goroutine that puts
	// it. If zero, 100 ms. A Store that does not heed its context keeps all
	// waiting beyond that: put it behind a [store.Guard].
	Timeout time.Duration
	// MaxBatch bounds what is asked for at once. If zero, 100.
	MaxBatch int64
}

// fleet is the state of a Fleet in a Throttle, under its lock.
type fleet struct {
	credit  pace.Credit
	asking  bool
	away    time.Duration // between questions; zero: the Store answers
	retryAt time.Time     // while away
	took    int64         // answers
	failed  int64
	late    bool    // the last answer was
	refused float64 // since something was granted
	crowd   float64 // how often it is refused before it is granted something
}

var errFleetGone = errors.New("throttle: the Store of the Fleet ended its goroutine")

const (
	firstAway = time.Second
	mostAway  = 30 * time.Second
	// Who finds nothing asks for at least so much of the limit, that questions
	// stay few.
	atATime = 50 * time.Millisecond
)

// FleetStats are what a [Throttle] has counted of its [Fleet] since its first use.
type FleetStats struct {
	// Answered is how often the Store has answered, and Failed how often it could
	// not be asked.
	Answered, Failed int64
}

// FleetStats returns what was counted of the Fleet so far.
func (t *Throttle) FleetStats() FleetStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return FleetStats{Answered: t.fleet.took, Failed: t.fleet.failed}
}

// ahead is how long before a call may start credit is bought for it.
const ahead = pace.MaxIdleCredit / 2

// buy asks for credit if some is wanted, in a goroutine that ends with the
// question. What the Control does not let start soon is not paid for yet: it
// would be lost to all. again is when to look anew. Caller holds mu.
func (t *Throttle) buy(now time.Time) (again time.Duration) {
	if t.Fleet.Store == nil {
		return pace.Never
	}
	f := &t.fleet
	if t.gate.Cost() == 0 {
		f.credit.Idle(now)
	}
	if f.asking || t.gate.Waiting() == 0 && f.away == 0 || now.Before(f.retryAt) {
		return pace.Never
	}
	soon, again := t.gate.Soon(now, ahead, t.gate.Control.(pace.All)[0])
	n := f.credit.Wants(now, soon)
	if f.away > 0 {
		n = 1 // to see
	}
	if n == 0 {
		return again
	}
	f.credit.Keep(now)
	most := t.Fleet.MaxBatch
	if most <= 0 {
		most = 100
	}
	f.asking = true
	n = min(n, most)
	go t.ask(limit.Ask{Key: t.Fleet.Key, Limit: t.Fleet.Limit, N: n, Min: min(n, t.Fleet.least())})
	return again
}

// least is how much is worth a question: what the limit gives in atATime, half a
// Burst at most.
func (f *Fleet) least() int64 {
	least := float64(f.Limit.Count) * atATime.Seconds() / max(f.Limit.Period.Seconds(), 1e-6)
	return int64(max(1, min(least, float64(f.Limit.Max())/2, 1<<40)))
}

// ask is the goroutine of one question.
func (t *Throttle) ask(q limit.Ask) {
	timeout := t.Fleet.Timeout
	if timeout <= 0 {
		timeout = 100 * time.Millisecond
	}
	late := time.Now().Add(timeout + tolerance)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	a := [1]limit.Ask{q}
	var d [1]limit.Decision
	err := errFleetGone
	defer func() { // whatever the Store does
		t.answer(q, d[0], err, late)
	}()
	_, err = t.Fleet.Store.Take(ctx, a[:], d[:])
}

// answer takes what the Store said. One that comes after late, when the question
// should long have ended, is of a process that stood still, as in a machine that
// was suspended: nothing can be said of the Store, and what it granted is of
// another time. So it is asked again; but not twice, as it may be that it does
// not heed its context.
func (t *Throttle) answer(a limit.Ask, d limit.Decision, err error, late time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	f := &t.fleet
	f.asking = false
	stood := now.After(late) && !f.late
	f.late = now.After(late)
	switch {
	case stood && err != nil:
		f.failed++
	case stood:
		f.took++
	case err != nil:
		f.failed++
		f.away = min(max(2*f.away, firstAway), mostAway)
		f.retryAt = now.Add(f.away)
		f.credit.Open()
	default:
		f.took++
		f.away, f.retryAt = 0, time.Time{}
		if d.OK && d.N > 0 {
			f.credit.Add(now, d.N)
			f.crowd += (f.refused - f.crowd) / 4
			f.refused = 0
		} else {
			f.refused++
			f.credit.Refuse(now, t.Fleet.rest(a, d.RetryAfter, f.crowd))
		}
	}
	t.pump(now, nil)
}

// rest is how long to wait after a refusal. Where others take what there is,
// each asks later by chance, so that all together ask about twice as often as
// something is to be had.
func (f *Fleet) rest(a limit.Ask, after time.Duration, crowd float64) time.Duration {
	if after >= time.Hour {
		return time.Hour // the limit may be changed, or a longer one asked for
	}
	each := time.Duration(float64(f.Limit.Period) / float64(max(f.Limit.Count, 1)) * float64(a.Min))
	return max(after, time.Millisecond) + time.Duration(rand.Float64()*min(crowd, 100)*float64(min(each, time.Minute)))
}
