package limit

import (
	"math"
	"time"
)

// Lease keeps the tokens that one process has prefetched from a limit that many
// share, so that it need not ask the store for each, and the last refusal of the
// store. Its driver asks the store for what Ask returns and passes the decision
// to Answer; in between, Take decides locally. The argument life, called Life here,
// is how long tokens may be used; if zero or below, DefaultLife.
//
// The zero Lease holds nothing. It is not safe for concurrent use. Times are of
// the clock of the process; their monotonic readings are used if they have them.
//
// Granted tokens are charged in the store at once, and may be used until Life
// after the store was asked, no longer: this includes the tokens for the ask
// itself. So whatever is used between s and t was granted between s - Life and
// t: with a TokenBucket of burst B and rate r all processes together use at most
//
//	B + r × (t - s + Life)
//
// This holds for any number of processes, whatever they are granted, lose, or
// forget, and whatever time their clocks show, as long as these run no more than
// 1/1000 slower than that of the store. It is prepaid credit: the leases of Gray and
// Cheriton (SOSP 1989) with events instead of a right. Tokens of a window
// expire with it: FixedWindow, FirstHitWindow and CalendarWindow are exact. The
// sliding kinds admit in any Period what the store grants in Period + Life.
type Lease struct {
	left  int64 // granted and not used
	grant Grant

	level  float64   // wanted in about the last half Life, as of since
	used   float64   // used in about the last Life, as of since
	since  time.Time // of both
	wanted float64   // since then
	taken  float64   // used since then
	far    time.Duration

	told    Decision  // the last answer
	asked   time.Time // when it was asked for
	at      time.Time // when it came
	hold    time.Duration
	refused int64   // what it refused; zero: it granted all there was
	lately  float64 // what was there, on average, each time that it was too little
}

const (
	// DefaultLife is how long the tokens of a [Lease] may be used if its life is
	// zero or below.
	DefaultLife = 100 * time.Millisecond
	// mostHold is how long a refusal is believed, as what others give back
	// might end it.
	mostHold = time.Second
	// long is how many half Lives are a Life. Of what was used in one a part of
	// as much as aPart may be held ahead, so that what is lost when nothing more
	// is wanted is little beside it.
	long, aPart = 2, 16
	// drift is how much faster the clock of the store may be: 1/1000.
	drift = 1000

	mostLeased = 1 << 61
	// newest is the weight of the last answer in what was there lately, which
	// counts as fewest at least.
	newest, fewest = 1.0 / 8, 1.0 / 64
)

// Leases reports whether a Lease may decide a: it asks for a number of events,
// all or nothing, of a limit that keeps count and could grant them.
func (a *Ask) Leases() bool {
	return a.N > 0 && a.Min <= 0 && !a.Debt && a.Limit.Period > 0 && a.N <= a.Limit.most()
}

// Want counts a as demand, by which Ask sizes the next batch. Call it once for each
// ask for which [Ask.Leases] is true. It returns how many tokens it counted, for
// Unwant: zero if a is for more than a batch may hold.
func (l *Lease) Want(a Ask, life time.Duration) (counts float64) {
	if n := float64(a.N); n <= l.most(&a.Limit, life) {
		counts = n
	}
	l.wanted += counts
	return counts
}

// Unwant subtracts from the demand what Want has counted, when another limit has
// refused the request.
func (l *Lease) Unwant(counts float64) { l.wanted -= counts }

// Take decides a locally: it uses tokens that are held, or repeats a recent
// refusal of the store. If it cannot decide, known is false.
func (l *Lease) Take(now time.Time, a Ask) (d Decision, known bool) {
	if d, known = l.Quick(now, a, l.left); d.OK {
		l.left -= a.N
		l.taken += float64(a.N)
	}
	return d, known
}

// Quick returns what Take would return if so many tokens were left. It changes
// nothing, so several goroutines may call it at once, for tokens taken out by Lend.
func (l *Lease) Quick(now time.Time, a Ask, left int64) (d Decision, known bool) {
	if left != 0 && !l.grant.Good(now) {
		left = 0
	}
	switch {
	case a.N <= left:
		d = l.decision(now, left-a.N)
		d.OK, d.N = true, a.N
		return d, true
	case l.refuses(now, a.N):
		return l.refusal(now, &a, left), true
	}
	return d, false
}

// Lends reports whether Quick could decide anything: tokens are held, or a refusal
// is known.
func (l *Lease) Lends() bool { return l.left > 0 || l.hold > 0 }

// Lend takes out the tokens held, at most so many, for use by Quick, and returns
// their number. Do not call Answer before Return.
func (l *Lease) Lend(most int64) (n int64) {
	n = min(l.left, most)
	l.left -= n
	return n
}

// Return puts back the tokens left of those that Lend took out, and counts the
// tokens used and refused meanwhile.
func (l *Lease) Return(left, used, refused int64) {
	l.left += left
	l.taken += float64(used)
	l.wanted += float64(used) + float64(refused)
}

// Look peeks: it returns the decision on a at the time now, as far as it is known
// here, and uses no token.
func (l *Lease) Look(now time.Time, a Ask) (d Decision) {
	switch {
	case a.N > a.Limit.most() || l.at.IsZero():
		return unused(now, a)
	case a.N > l.leftAt(now) && l.refuses(now, a.N):
		return l.refusal(now, &a, l.leftAt(now))
	}
	d = l.decision(now, l.leftAt(now))
	d.OK = true
	return d
}

// Grant identifies the tokens that one answer granted to a [Lease].
type Grant struct {
	sent time.Time // the question
	good time.Duration
}

// Good reports whether the tokens of g may still be used at the time now.
func (g Grant) Good(now time.Time) bool {
	age := ageOf(now, g.sent)
	// Callers overtake each other between reading the clock and this, so a
	// little less than nothing is no age either.
	return -g.good < age && age < g.good
}

// Granted returns the Grant that Take uses: for Back, and to check whether it is
// still good when the decisions on other keys are known.
func (l *Lease) Granted() Grant { return l.grant }

// Back takes back n tokens that Take has granted and that were not used, if they
// are of the grant that is held now: a newer one lives longer.
func (l *Lease) Back(n int64, of Grant) {
	l.taken -= float64(n)
	if of.sent.Equal(l.grant.sent) {
		l.left += n
	}
}

// Late reports whether an answer to a request sent at the time sent is too old
// to be used at the time now.
func Late(now, sent time.Time, life time.Duration) bool {
	return !Grant{sent, goodOf(life)}.Good(now)
}

// ageOf is how long ago t was. A machine that was suspended may have stopped its
// monotonic clock, and the other one may have been set: the one that shows more
// counts.
func ageOf(now, t time.Time) time.Duration {
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// goodOf is how long what is granted may be used after the question was sent.
func goodOf(life time.Duration) time.Duration { return lifeOf(life) - lifeOf(life)/drift }

// Renew forgets the last refusal. Call it when something was refunded.
func (l *Lease) Renew() { l.hold = 0 }

// Lost says that the store gave no answer. The next Ask prefetches nothing, as a
// grant whose answer is lost is wasted.
func (l *Lease) Lost() { l.far = math.MaxInt64 }

// Ask returns what to ask the store instead of a: a batch that covers the demand
// here for half a Life, or a itself if that is more. The batch is at most what
// refills in half a Life, or a small part of what was used here in a Life, whichever
// is more. If the last answer took longer than a quarter of Life, Ask returns a.
func (l *Lease) Ask(now time.Time, a Ask, life time.Duration) Ask {
	half := halfOf(life)
	x := max(now.Sub(l.since).Seconds()/half.Seconds(), 0)
	if l.since.IsZero() {
		x = 0
	}
	l.level = max(faded(l.level, l.wanted, x), 0)
	l.used = max(faded(l.used, l.taken, x/long), 0)
	l.since, l.wanted, l.taken = now, 0, 0
	more := min(l.level, l.most(&a.Limit, life)) - float64(a.N)
	if more >= 1 && a.N < mostLeased && l.far < lifeOf(life)/4 {
		a.Min = a.N
		a.N += int64(min(more, mostLeased))
	}
	return a
}

// faded is level after x, in units of which e are the time in which it fades to
// 1/e, if more was added to it evenly meanwhile.
func faded(level, more, x float64) float64 {
	if x == 0 {
		return level + more
	}
	// What is added at a constant rate fades to (1 - e^-x) / x of it.
	return level*math.Exp(-x) - more*math.Expm1(-x)/x
}

// most is how much may be asked for at once.
func (l *Lease) most(to *Limit, life time.Duration) float64 {
	return max(to.in(halfOf(life)), (l.used+l.taken)/aPart)
}

// Answer takes the decision of the store on put, which was sent at the time sent
// instead of a, and returns the decision on a. A grant that comes when it is
// [Late] is lost: d is a refusal then, with a RetryAfter of a microsecond, as
// the store may be asked again at once. An a with an N of zero keeps all tokens
// for later. chance, from 0 to 1, should differ between processes, so that they
// do not all return at once after a refusal.
func (l *Lease) Answer(now, sent time.Time, a, put Ask, told Decision, life time.Duration, chance float64) (d Decision) {
	l.far = now.Sub(sent)
	if told.OK && told.N < a.N {
		return told // let pass without being charged, or not charged for another's sake
	}
	if told.OK && Late(now, sent, life) {
		d = told
		d.OK, d.N, d.Remaining, d.RetryAfter = false, 0, 0, time.Microsecond
		return d
	}
	if told.OK {
		l.taken += float64(a.N)
		if put.N > a.N {
			l.add(now, sent, &a, told, life)
		}
	}
	if sent.Before(l.asked) { // a newer answer has come before
		d = told
		d.Remaining = 0
	} else {
		d = l.hear(now, sent, &a, put, told, life, chance)
	}
	if told.OK {
		d.OK, d.N = true, a.N
	}
	return d
}

// hear notes the newest answer, and returns it as of a refusal, or as of nothing
// asked for.
func (l *Lease) hear(now, sent time.Time, a *Ask, put Ask, told Decision, life time.Duration, chance float64) Decision {
	l.told, l.asked, l.at, l.hold = told, sent, now, 0
	if told.OK && told.N == put.N {
		l.lately = 0
		return l.decision(now, l.leftAt(now))
	}
	rest := time.Duration((1 + chance) / 2 * float64(min(halfOf(life), a.Limit.half(a.N)+l.others(a, told.N))))
	switch {
	case !told.OK:
		l.refused, l.hold = a.N, min(told.RetryAfter, mostHold)+rest
		return l.refusal(now, a, l.leftAt(now))
	default: // it has no more
		l.refused, l.hold = 0, rest
	}
	return l.decision(now, l.leftAt(now))
}

// others returns how much longer to rest because other processes ask too, when n
// was left. What is left shows, to all processes alike, how long ago any of them
// asked: so all rest longer, and none rests longer for having got less. The time
// from one question to the next, of all of them, stays below that in which half
// a burst comes back.
func (l *Lease) others(a *Ask, n int64) time.Duration {
	half := float64(a.Limit.most()) / 2
	if l.lately == 0 {
		l.lately = half
	}
	l.lately += (float64(n) - l.lately) * newest
	times := max(half/max(l.lately, fewest)-1, 0)
	return time.Duration(min(times*float64(a.Limit.half(a.N)), float64(math.MaxInt64/4)))
}

// add adds what was granted beyond a. What was held is used for a first, as it
// ends earlier; if it was more than that, as some was given back meanwhile, the
// rest of it is lost.
func (l *Lease) add(now, sent time.Time, a *Ask, told Decision, life time.Duration) {
	good := goodOf(life)
	if a.Limit.Kind.isWindow() {
		good = min(good, told.ResetAfter-told.ResetAfter/drift)
	}
	if had := l.leftAt(now); had < a.N {
		l.left = told.N - (a.N - had)
	} else {
		l.left = told.N
	}
	l.grant = Grant{sent, good}
}

// leftAt is how many are held and still good.
func (l *Lease) leftAt(now time.Time) int64 {
	if l.left == 0 || !l.grant.Good(now) {
		return 0
	}
	return l.left
}

// refuses is whether the store, asked a while ago, would refuse n.
func (l *Lease) refuses(now time.Time, n int64) bool {
	if l.hold <= 0 || n < l.refused {
		return false
	}
	age := ageOf(now, l.at)
	return -l.hold < age && age < l.hold
}

// refusal is the answer while l refuses.
func (l *Lease) refusal(now time.Time, a *Ask, left int64) Decision {
	d := l.decision(now, left)
	after := l.told.RetryAfter
	switch {
	case a.Limit.Kind.isBucket() && a.N > l.refused:
		// What is wanted beyond it comes one by one after that.
		s := spanOf(a.N-l.refused, a.Limit.micros(), a.Limit.Count)
		more := Never
		if s.us < int64(Never/time.Microsecond) {
			more = time.Duration(s.us)*time.Microsecond + min(time.Duration(s.rem), time.Microsecond)
		}
		after += min(more, Never-after)
	case a.Limit.Kind.isWindow() && l.told.OK:
		after = l.told.ResetAfter // all that was left was granted
	}
	if after != Never {
		after = max(after, l.hold) - max(now.Sub(l.at), 0)
	}
	d.RetryAfter = max(after, time.Microsecond)
	return d
}

// decision is what the store would say now, were it not for others, about
// what is left.
func (l *Lease) decision(now time.Time, left int64) Decision {
	gone := max(now.Sub(l.at), 0)
	return Decision{
		Max:        l.told.Max,
		Remaining:  min(l.told.Remaining, math.MaxInt64-left) + left,
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

// half returns how long half of the largest N of l, less n, takes to refill: a
// caller that waits for n no longer than that loses nothing of it.
func (l *Limit) half(n int64) time.Duration {
	d := float64(l.most()-min(n, l.most())) / 2 / float64(l.Count) * float64(l.Period)
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}
