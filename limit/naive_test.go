package limit

import (
	"math/big"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// A naive limiter is what a kind must do, without cleverness. Its times are in
// microseconds.
type naive interface {
	// left is how much may be taken at now; below zero, as much is owed.
	left(now int64) int64
	// used is how much can be given back at now.
	used(now int64) int64
	// empty reports whether nothing is remembered at now.
	empty(now int64) bool
	// take charges n, or gives -n back; clamp is called before with the time.
	take(now, n int64)
	clamp(now int64)
}

// naiveGrant is how much of a passes where left is left.
func naiveGrant(a Ask, left int64) (n int64, ok bool) {
	switch {
	case a.N < 0, a.Debt && a.N > 0:
		return a.N, true
	case a.N == 0:
		return 0, left >= 0
	case a.N <= left:
		return a.N, true
	case a.Min > 0 && min(a.Min, a.N) <= left:
		return left, true
	}
	return 0, false
}

// player puts the same questions to a limiter and to the naive one.
type player struct {
	testing.TB
	limit Limit
	take  func(time.Time, Ask) Decision
	naive naive
	now   int64
	steps int
	// back is how far the clock may go back.
	back int64
}

// takeState is Take with the state kept.
func takeState() func(time.Time, Ask) Decision {
	var s State
	return func(now time.Time, a Ask) (d Decision) {
		s, d = Take(s, now, a)
		return d
	}
}

// play reads a byte as a step of the clock or a question.
func (p *player) play(script []byte) {
	period, most := p.limit.micros(), p.limit.Max()
	latest := p.now
	for i, b := range script {
		switch {
		case b >= 248: // back, a little or a lot
			p.now = max(p.now-(int64(b)-247)*max(period/16, p.back/4), latest-p.back)
		case b >= 240:
			p.now += int64(b-239) * period / 3
		case b >= 190:
			p.now += 1 + int64(b-190)*period/64
		case b >= 180:
			p.now++
		default:
			a := Ask{Limit: p.limit, N: int64(b%8) * int64(b%8) * most / 48}
			switch i % 8 {
			case 0:
				a.N = -a.N
			case 1, 2:
				a.N = int64(b % 4)
			}
			a.Min, a.Debt = int64(b/8%4), b >= 172
			if a.Debt {
				a.N *= 3
			}
			p.ask(a)
		}
		latest = max(latest, p.now)
	}
	p.steps += len(script)
}

func (p *player) ask(a Ask) {
	p.naive.clamp(p.now)
	before := p.naive.left(p.now)
	d := p.take(time.UnixMicro(p.now), a)
	fail := func(what string) {
		p.Helper()
		p.Fatalf("%v, step %d: %d left at %d: Take(%+v) = %+v: %s", p.limit, p.steps, before, p.now, a, d, what)
	}
	n, ok := naiveGrant(a, before)
	charged := n
	switch {
	case n < 0:
		n = max(n, -p.naive.used(p.now))
		charged = n
	case a.Debt:
		charged = min(n, max(before+p.limit.Max(), 0)) // at most as much again is owed
	}
	if d.N != charged || d.OK != ok {
		fail("want " + big.NewInt(charged).String() + " granted")
	}
	if n != 0 || a.N < 0 { // a refund of nothing forgets what is over, too
		p.naive.take(p.now, n)
	}
	if left := max(p.naive.left(p.now), 0); d.Remaining != left {
		fail("want remaining " + big.NewInt(left).String())
	}
	p.checkRetry(fail, a, d)
	reset := int64(d.ResetAfter / us)
	if !p.naive.empty(p.now+reset) || reset > 0 && p.naive.empty(p.now+reset-1) {
		fail("ResetAfter is not when nothing is remembered")
	}
}

// checkRetry wants the earliest time at which the question passes.
func (p *player) checkRetry(fail func(string), a Ask, d Decision) {
	wait, least := int64(d.RetryAfter/us), a.least()
	switch {
	case d.OK != (d.RetryAfter == 0):
		fail("OK and RetryAfter disagree")
	case d.OK:
	case (d.RetryAfter == Never) != (least > p.limit.Max()):
		fail("Never is what can never pass")
	case d.RetryAfter == Never:
	case p.naive.left(p.now+wait) < least:
		fail("RetryAfter is too early")
	case p.naive.left(p.now+wait-1) >= least:
		fail("RetryAfter is too late")
	}
}

// naiveBucket is the leaky bucket as a meter: what is taken pours in, it leaks
// Count in a Period, and must not overflow Burst.
type naiveBucket struct {
	burst, rate *big.Rat // a microsecond
	water       *big.Rat
	last        int64
}

func newNaiveBucket(l Limit) *naiveBucket {
	return &naiveBucket{
		burst: new(big.Rat).SetInt64(l.Max()),
		rate:  big.NewRat(l.Count, l.micros()),
		water: new(big.Rat),
	}
}

func (b *naiveBucket) level(now int64) *big.Rat {
	leak := new(big.Rat).SetInt64(now - b.last)
	level := leak.Sub(b.water, leak.Mul(leak, b.rate))
	if level.Sign() < 0 {
		level.SetInt64(0)
	}
	return level
}

func (b *naiveBucket) left(now int64) int64 {
	left := new(big.Rat).Sub(b.burst, b.level(now))
	return new(big.Int).Div(left.Num(), left.Denom()).Int64() // rounds down
}

func (b *naiveBucket) used(now int64) int64 {
	level := b.level(now)
	level.Neg(level)
	return -new(big.Int).Div(level.Num(), level.Denom()).Int64() // rounds up
}

func (b *naiveBucket) empty(now int64) bool { return b.level(now).Sign() == 0 }
func (b *naiveBucket) clamp(int64)          {}

func (b *naiveBucket) take(now, n int64) {
	b.water, b.last = b.level(now), now
	b.water.Add(b.water, new(big.Rat).SetInt64(n))
	if twice := new(big.Rat).Add(b.burst, b.burst); b.water.Cmp(twice) > 0 {
		b.water = twice
	}
	if b.water.Sign() < 0 {
		b.water.SetInt64(0)
	}
}

// naiveWindow counts until the end of a window.
type naiveWindow struct {
	count, taken, end int64
	ends              func(now int64) int64 // of the window that now is in, or begins
	latest            func(now int64) int64 // the furthest end there may be
}

func (w *naiveWindow) open(now int64) bool { return w.taken > 0 && now < w.end }

func (w *naiveWindow) left(now int64) int64 {
	if !w.open(now) {
		return w.count
	}
	return w.count - w.taken
}

func (w *naiveWindow) used(now int64) int64 { return w.count - w.left(now) }
func (w *naiveWindow) empty(now int64) bool { return !w.open(now) }
func (w *naiveWindow) clamp(now int64)      { w.end = min(w.end, w.latest(now)) }

func (w *naiveWindow) take(now, n int64) {
	if !w.open(now) {
		w.taken, w.end = 0, w.ends(now)
	}
	w.taken = min(max(w.taken+n, 0), 2*w.count)
}

// fuzzScripts fuzzes a limit and what to do with it.
func fuzzScripts(f *testing.F, check func(t testing.TB, count, period int64, script []byte) int) {
	f.Add(int64(10), int64(1_000_000), []byte("each byte is a step or a question, and some of both"))
	f.Add(int64(3), int64(60_000_000), []byte{7, 215, 7, 255, 1, 1, 1, 199, 1, 1, 1, 1, 176, 8, 243, 17, 16, 24})
	f.Add(int64(1), int64(1), []byte{1, 200, 1, 1, 1, 181, 1, 1, 250, 1, 1, 182, 1, 1})
	f.Add(int64(100), int64(5_003), []byte{191, 1, 252, 1, 201, 9, 254, 100, 220, 30, 31, 185, 33, 249, 3, 3, 175})
	f.Add(int64(1)<<40, int64(1)<<40, []byte{191, 7, 195, 6, 201, 9, 249, 100, 220, 30, 31, 185, 33, 249, 3, 3, 175})
	f.Fuzz(func(t *testing.T, count, period int64, script []byte) {
		if count > 0 && count <= 1<<50 && period > 0 && period <= 1<<50 && len(script) <= 500 {
			check(t, count, period, script)
		}
	})
}

// soak plays random scripts for ten million steps.
func soak(t *testing.T, check func(t testing.TB, count, period int64, script []byte) int) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: ten million steps each; make soak runs it")
	}
	r := rand.New(rand.NewPCG(9, 10))
	for steps := 0; steps < 10_000_000; {
		script := make([]byte, 200)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		steps += check(t, 1+r.Int64N(1<<r.IntN(50)), 1+r.Int64N(1<<r.IntN(50)), script)
	}
}
