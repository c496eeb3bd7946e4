package limit

import (
	"math"
	"time"
)

// Lease is what one process holds of a limit that many share: events that were
// granted to it ahead of use, so that it need not ask for each, and what it was
// told when there were none. Whoever keeps it asks the store for what Ask says,
// and hands the answer to Answer; between, Take answers by itself.
//
// The zero Lease holds nothing. It is not safe for concurrent use. Times are of
// the clock of the process; what they have of a monotonic clock is used.
//
// What is granted is charged in the store at once, and can be used for Life
// after the question was sent, no longer. So whatever is used between s and t was
// granted between s - Life and t: with a TokenBucket of burst B and rate r all
// processes together use at most
//
//	B + r × (t - s + Life)
//
// however many they are, whatever they are granted, lose, or forget, and whatever
// their clocks show (prepaid credit, as the leases of Gray and Cheriton, SOSP
// 1989, with events instead of a right). What is granted of a window ends with
// it: FixedWindow, FirstHitWindow and CalendarWindow are exact. The sliding kinds
// admit in any Period what the store grants in Period + Life.
type Lease struct {
	left int64 // granted and not used
	sent time.Time
	good time.Duration // after sent

	level float64 // asked for in about the last half Life, as of since
	since time.Time
	asked int64 // since then

	told  Decision // the last answer
	at    time.Time
	hold  time.Duration // after at, least and more are refused
	least int64
}

const (
	// DefaultLife is the Life that stands for zero.
	DefaultLife = 100 * time.Millisecond
	// mostHold is how long a refusal is believed, as what others give back
	// might end it.
	mostHold = time.Second
	// partOfMost of a limit may be leased at once, or what refills in half a Life.
	partOfMost = 16
	mostLeased = 1 << 61
	// drift is how much faster the clock of the store may be: 1/1000.
	drift = 1000
)

// Leases reports whether a may be answered by a Lease: it wants a number of
// events, all or nothing, of a limit that keeps count and could grant them.
func (a *Ask) Leases() bool {
	return a.N > 0 && a.Min <= 0 && !a.Debt && a.Limit.Period > 0 && a.N <= a.Limit.most()
}

// Seen notes that n are wanted, once for each question that Leases.
func (l *Lease) Seen(n int64) {
	if l.asked += n; l.asked < 0 {
		l.asked = math.MaxInt64
	}
}

// Take answers a by what is held: it uses some, or refuses what the store has
// refused just now. If it cannot tell, known is false.
func (l *Lease) Take(now time.Time, a Ask) (d Decision, known bool) {
	left := l.leftAt(now)
	switch {
	case a.N <= left:
		l.left = left - a.N
		d = l.decision(now)
		d.OK, d.N = true, a.N
		return d, true
	case l.refuses(now, a.N):
		return l.refusal(now), true
	}
	return d, false
}

// Look is what is known at the time now, with nothing asked for.
func (l *Lease) Look(now time.Time, a Ask) Decision {
	if l.at.IsZero() {
		most := a.Limit.Most()
		return Decision{OK: true, Most: most, Remaining: most, At: now}
	}
	d := l.decision(now)
	d.OK = true
	return d
}

// Granted tells what was granted last from what was granted before it.
func (l *Lease) Granted() (sent time.Time) { return l.sent }

// Back takes back n that Take has answered and that were not used, if they are
// of the grant that is held now: a newer one lives longer.
func (l *Lease) Back(n int64, sent time.Time) {
	if sent.Equal(l.sent) {
		l.left += n
	}
}

// Ask is what to ask of the store instead of a: what was asked for here in half
// a Life, if it has as much, as that is how long it should last.
func (l *Lease) Ask(now time.Time, a Ask, life time.Duration) Ask {
	half := halfOf(life)
	x := now.Sub(l.since).Seconds() / half.Seconds()
	switch {
	case l.since.IsZero():
		l.level = float64(l.asked)
	case x > 0:
		// What was asked for evenly in x half Lives has decayed to
		// (1 - e^-x) / x of it.
		l.level = l.level*math.Exp(-x) - float64(l.asked)*math.Expm1(-x)/x
	default:
		l.level += float64(l.asked)
	}
	l.since, l.asked = now, 0
	most := max(a.Limit.in(half), float64(a.Limit.Most()/partOfMost))
	if left := l.leftAt(now); left < a.N {
		a.Min = a.N - left
	}
	if more := min(l.level, most) - float64(a.N); more >= 1 && a.N < mostLeased {
		a.N += int64(min(more, mostLeased))
	}
	return a
}

// Answer notes what the store told to what Ask had to ask of it at the time sent,
// and returns what that is to a itself. In chance, from 0 to 1, processes should
// differ, so that they do not come back all at once after a refusal.
func (l *Lease) Answer(now, sent time.Time, a, put Ask, told Decision, life time.Duration, chance float64) Decision {
	had := l.leftAt(now)
	l.told, l.at, l.hold = told, now, 0
	rest := time.Duration((1 + chance) / 2 * float64(min(halfOf(life), a.Limit.half())))
	if !told.OK {
		l.least = a.N
		l.hold = min(told.RetryAfter, mostHold) + rest
		return l.refusal(now)
	}
	if told.N <= 0 { // let pass without being charged
		l.left = had
		return told
	}
	if told.N < put.N { // it has no more
		l.least, l.hold = 1, rest
	}
	// What was held is used first; if it was more than that, as some was given
	// back meanwhile, it is lost.
	l.left = told.N - max(a.N-had, 0)
	l.sent, l.good = sent, lifeOf(life)-lifeOf(life)/drift
	if a.Limit.Kind.isWindow() {
		l.good = min(l.good, told.ResetAfter-told.ResetAfter/drift)
	}
	if l.left < 0 { // what was held has ended meanwhile
		l.left, l.least, l.hold = told.N, a.N, rest
		return l.refusal(now)
	}
	d := l.decision(now)
	d.OK, d.N = true, a.N
	return d
}

// leftAt is how many are held and still good.
func (l *Lease) leftAt(now time.Time) int64 {
	if l.left == 0 {
		return 0
	}
	// A machine that was suspended may have stopped its monotonic clock, and
	// the other one may have been set: the one that shows more counts. Callers
	// overtake each other between reading the clock and this, so a little less
	// than nothing is no age either.
	age := now.Sub(l.sent)
	if -l.good < age && max(age, now.Round(0).Sub(l.sent.Round(0))) < l.good {
		return l.left
	}
	return 0
}

// refuses is whether the store, asked a while ago, would refuse n.
func (l *Lease) refuses(now time.Time, n int64) bool {
	return l.hold > 0 && n >= l.least && now.Sub(l.at) < l.hold
}

// refusal is the answer while l refuses.
func (l *Lease) refusal(now time.Time) Decision {
	d := l.decision(now)
	after := l.told.RetryAfter
	if after != Never {
		after = max(after, l.hold) - max(now.Sub(l.at), 0)
	}
	d.RetryAfter = max(after, time.Microsecond)
	return d
}

// decision is what the store would say now, were it not for others, about
// what is left.
func (l *Lease) decision(now time.Time) Decision {
	gone := max(now.Sub(l.at), 0)
	return Decision{
		Most:       l.told.Most,
		Remaining:  min(l.told.Remaining, math.MaxInt64-l.left) + l.leftAt(now),
		ResetAfter: max(l.told.ResetAfter-gone, 0),
		At:         l.told.At.Add(gone),
	}
}

func lifeOf(life time.Duration) time.Duration {
	if life <= 0 {
		return DefaultLife
	}
	return life
}

func halfOf(life time.Duration) time.Duration { return max(lifeOf(life)/2, 1) }

// in is how many l gives in d.
func (l *Limit) in(d time.Duration) float64 {
	return float64(l.Count) * d.Seconds() / l.Period.Seconds()
}

// half is how long half of the most that l allows at once takes to come back.
func (l *Limit) half() time.Duration {
	d := float64(l.most()) / 2 / float64(l.Count) * float64(l.Period)
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}
