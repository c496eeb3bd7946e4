package pace

import (
	"math"
	"time"
)

// buckets is what a level knows of a limit that is a token bucket.
type buckets struct {
	most      float64 // highest r seen
	full      float64 // stated burst or quota, less one: r after one request of a full bucket; zero: none
	topsInRow int     // answers in a row that saw most, the first not counted
	sinceRise int     // answers since most last rose
	tiny      bool    // it holds no more than most
}

const (
	topsToRise       = 2   // topsInRow from which a low level that stands still raises theta,
	topsBelieved     = 4   // is believed whatever is stated, where nobody else was noticed,
	topsCertain      = 12  // and shows that the bucket holds no more
	smallAfter       = 4.0 // to the power of 1 + most: answers after which it is small,
	smallAfterStated = 100 // and at least so many where more is stated
)

// top records r, the level of an answer; paced reports whether the level sets the rate.
func (b *buckets) top(r float64, paced bool) {
	b.sinceRise++
	switch {
	case r > b.most:
		b.most, b.topsInRow, b.sinceRise, b.tiny = r, 0, 0, false
	case r < b.most:
		b.topsInRow = 0
	default:
		b.topsInRow++
	}
	b.tiny = b.tiny || paced && b.most <= smallest && b.topsInRow >= topsCertain
}

// small reports whether the bucket holds at most 4, as stated, or at most 3, as seen: of so few
// what remains says less than refusals do. A large bucket that its clients keep nearly empty
// looks the same for a while, so the more was seen, the more answers it takes.
func (b *buckets) small() bool {
	switch {
	case b.full > 0 && b.full <= smallest:
		return b.sinceRise >= topsBelieved
	case b.full > 0 && b.most >= 1 && b.sinceRise < smallAfterStated: // nothing at all is believed sooner
		return false
	}
	return b.most < smallest && float64(b.sinceRise) >= math.Pow(smallAfter, 1+b.most)
}

// fullLevel returns r after one request of a full bucket: the higher of that stated and that seen.
// That seen counts alone once several answers in a row saw it, and no other client was noticed.
func (l *level) fullLevel() float64 {
	if l.topsInRow >= topsBelieved && l.othersFor <= 0 {
		return l.most
	}
	return max(l.most, l.full)
}

// windows is what a level knows of a limit that is a fixed window.
type windows struct {
	window        bool    // it is one
	resetAt       float64 // when it ends
	agreedSince   float64 // since when resets name resetAt
	startLevel    float64 // r then, or at the last refill
	noWindowUntil float64 // until when nothing is taken for a fixed window
	provenAhead   float64 // how long before, in seconds, an end was stated that came true
	ended         int     // windows that ended when their reset had said
	moved         int     // times that the reset moved away before it came, since one came or stood
	nearest       float64 // how far ahead it was at the nearest of these, seconds
	returnDelay   float64 // seconds after the end to come back
	opens         int     // times in a row that what remains rose as where a short window ends,
	openedAt      float64 // the last of which was then
	fillsIn       float64 // seconds in which all of it comes back, as resets say
	passOver      bool    // leave what remains of this window to others
	unseen        int     // answers in a row after the end that do not say what remains
	rtt           float64 // mean round trip, seconds
	ends          ends
}

const (
	rush         = 1.0  // seconds, time constant of spending a window at once
	noWindowFor  = 10.0 // windows: so long none is recognised after one that was none
	slack        = 1.1  // seconds by which resets differ, as they are rounded up
	agreement    = 3.0  // seconds for which resets must agree
	distantReset = 5.0  // seconds: a reset so far ahead would be seen to move
	fallen       = 0.5  // by then: this part of the most that remained is used,
	fellBy       = 8.0  // and so many requests
	cameBack     = 0.25 // part of the most that remained, by which it rises then,
	opensLeast   = 3    // how often that shows a window, though no end is stated,
	opensWithin  = 30.0 // and how many seconds after the time before
	movedOn      = 4    // moves of a reset,
	farther      = 4.0  // by this factor in all, after which it is a bucket's
	openingWait  = 4.0  // round trips to wait for an answer of a new window, with as many in flight as it can hold
	unseenMost   = 4    // answers in a row without what remains after which a window is left
	lastPart     = 0.25 // 1/4 of a doubtful window, for which its last request waits
)

// within returns the next start in a window, if it would be at by the rate: the end of the
// window if nothing remains or at is later. An end more than an hour ahead may be wrong, so
// there is one try an hour, unless an end stated so long before came true or the stated policy
// is as long. After the end no more are in flight than the window can hold, as far as is known,
// until an answer comes, or for four round trips; last is when the last one started.
func (l *level) within(s, at, last float64, flying int) float64 {
	switch {
	case !l.on || !l.window:
		return at
	case s >= l.resetAt && float64(flying) > l.most:
		return max(at, last+min(patience, openingWait*l.rtt))
	case s >= l.resetAt:
		return at
	}
	if look := l.resetAt - lastPart*(l.resetAt-l.agreedSince); s < look && l.doubtful() {
		return max(at, look)
	}
	if end := min(l.resetAt, s+min(max(longestLook, l.provenAhead, l.length), 86400)) + l.returnDelay; l.r < 1 || l.passOver || at > end {
		return end
	}
	return at
}

// sent takes a request off what remains of a window, until an answer says more.
func (l *level) sent(took float64) {
	if l.on && l.window {
		l.r = max(l.r-took, 0)
	}
}

// reset learns when the window ends: from the reset that the server states, or else from leaps
// and refusals. A fixed window gives nothing back before it ends, as rose reports, and ends no
// later than its length.
func (l *level) reset(rtt, s, sent float64, rose bool, o *Outcome) {
	l.rtt = rtt
	if rose {
		l.startLevel = l.shown
	}
	reset, remaining := o.Hints.Reset, o.Hints.Remaining
	if !reset.OK || l.briefly() {
		switch {
		case l.length == 0 || l.ends.longestAfter > 0 && !l.briefly(): // refusals say when it ends
		case o.Verdict == Throttled:
			l.leaps.observe(s, sent, 0, l.quota, l.length)
		case remaining.OK:
			l.leaps.observe(s, sent, l.shown, l.quota, l.length)
		}
		l.guess(s, sent, rose, o)
		return
	}
	if long := reset.V.Seconds(); l.window && rose || l.length > 0 && long > l.length+slack {
		l.noWindowUntil = s + noWindowFor*long
	}
	if l.window && l.single() && o.Verdict == Throttled && sent >= l.resetAt && reset.V.Seconds() > slack {
		l.othersFor = othersKept // another client was there first
	}
	if remaining.OK && o.Verdict == Served && l.shown < l.most/2 {
		l.fillsIn = max(l.fillsIn, reset.V.Seconds()*l.most/(l.most-l.shown))
	}
	l.judge(s, s+reset.V.Seconds(), o.Verdict == Served, l.opensAtReset(o))
}

// open counts how often what remains rose by much, as it does when a short window ends, less how
// often it rose by less, as in a bucket, or again before answers could tell. Answers that overtake each
// other show rises, too. In a longer window there is time for theta to grow.
func (l *level) open(s, r float64) {
	switch rise := r - l.shown - l.flight; {
	case l.most < fellBy || rise <= 1:
	case rise < l.most*cameBack || s-l.openedAt < answersPerOn*l.rtt:
		l.opens = max(l.opens-1, 0)
	case s-l.openedAt <= opensWithin:
		l.opens, l.openedAt = min(l.opens+1, 2*opensLeast), s
	default:
		l.opens, l.openedAt = 1, s
	}
}

// single reports whether the limit holds one request, as far as answers have shown. They all say
// then that nothing remains, which does not show whether others use the limit.
func (l *level) single() bool { return l.most < 1 }

// opensAtReset reports whether a refusal says to come back at the reset, as that of a window does:
// a bucket has a token long before it is full. Where the server states no Retry-After, the client
// waits for the reset anyway. A client that may share the limit needs more signs of a window, or a
// crowd would come back to slots and logs at the same time, again and again.
func (l *level) opensAtReset(o *Outcome) bool {
	after := o.After.Seconds()
	return (l.alone() || l.single() && l.othersFor <= 0) && o.Verdict == Throttled &&
		after > distantReset && math.Abs(after-o.Hints.Reset.V.Seconds()) <= l.tolerance()
}

// judge decides whether resets name one instant, as of a window, or move on with each request
// served, as of a bucket. They must agree for a while, or while much is used; named, by a refusal
// for which opensAtReset is true, once is enough.
func (l *level) judge(s, reset float64, served, named bool) {
	apart := l.tolerance()
	switch {
	case s < l.noWindowUntil:
		l.window = false
		return
	case math.Abs(reset-l.resetAt) <= apart:
		l.resetAt = min(l.resetAt, reset)
		long := s-l.agreedSince >= agreement*apart/slack
		if long && served {
			l.moved = 0
		}
		used := served && reset-s > distantReset && l.startLevel-l.shown >= max(fellBy, l.most*fallen)
		l.window = l.window || !l.fills(reset-s) && (long || used || named)
		return
	case reset > l.resetAt && s >= l.resetAt-apart: // the next window
		l.moved = 0
		if l.resetAt > 0 {
			l.ended++
		}
		if l.window && served && l.shown >= l.most*fallen {
			l.provenAhead = max(l.provenAhead, l.resetAt-l.agreedSince)
		}
	case l.window: // it was no window
		l.window = false
	case reset > l.resetAt:
		if l.moved++; l.moved == 1 || reset-s < l.nearest {
			l.nearest = reset - s
		}
	}
	l.resetAt, l.agreedSince, l.startLevel = reset, s, l.shown
}

// fills reports whether a reset so far ahead, in seconds, is when a bucket would be full: it
// moved away as more was used.
func (w *windows) fills(ahead float64) bool { return w.moved >= movedOn && ahead > farther*w.nearest }

// tolerance returns how many seconds two instants may differ by and be the same: resets come
// in whole seconds, after a round trip that varies.
func (l *level) tolerance() float64 { return slack + l.rtt/4 }

// hidden reports whether the window is over and several answers have not said what remains of
// the new one: some servers say so only once little remains.
func (l *level) hidden(s, sent float64, o *Outcome) bool {
	switch {
	case o.Hints.Remaining.OK:
		l.unseen = 0
	case l.window && l.resetAt <= sent:
		l.unseen++
	}
	if l.unseen < unseenMost {
		return false
	}
	l.unseen = 0
	return true
}

// beyond returns how many seconds after the next start the k-th start after it comes, for
// forecasts. They are interval apart while the window has any left. Later ones are at the start of
// the windows after it, each of the most that remained, or of the stated limit, in requests, if
// more; zero: none is stated. Other clients may take part of it, but are not known well enough to
// turn calls away.
func (l *level) beyond(s, k, interval, limit float64) float64 {
	long := l.length
	if long == 0 {
		long = max(l.provenAhead, l.resetAt-l.agreedSince)
	}
	left := max(l.resetAt-s, 0)
	if !l.on || !l.window || long == 0 || k <= l.r-1 {
		return k * interval
	}
	if l.r >= 1 { // the next start is in this window
		k -= l.r - 1
	} else { // it is at the end
		left = 0
	}
	if l.ended == 0 && max(l.full, limit) == 0 { // how many the next window has is not known
		return left
	}
	each := max(l.most, l.full+1, limit, 1)
	return left + math.Floor(k/each)*long
}

// doubtful reports whether the last request of this window waits for its last quarter, after
// the 1st, 2nd, 4th, 8th window that ended by its reset. A client alone that uses up two
// counters at once and waits for their reset would take them for a window twice as long, and be
// served half. That request sees what they give back earlier. A stated length needs none of this.
func (l *level) doubtful() bool {
	return l.ended > 0 && l.ended&(l.ended-1) == 0 && l.length == 0 && l.r >= 1 && l.r < 2 &&
		l.most >= smallest && !l.freeStart && l.alone()
}

// ends are ends of windows that refusals name by Retry-After, for a server without resets.
type ends struct {
	at           float64 // the last one named, seconds
	every        float64 // seconds from one to the next, where no policy states them; zero: not known
	longestAfter float64 // longest Retry-After, seconds
	triedAt      float64 // the end after which a request was served
	openedAt     float64 // the end after which much remained at once, as in a window
	closed       int     // ends in a row after which little remained
	byFirstHit   bool    // a window starts with the first request in it
}

// guess predicts the end of the window: one length after the last end named, if at once after
// that end half of the limit remained; a bucket would refill bit by bit. Leaps, where they are
// known, say more than refusals.
func (l *level) guess(s, sent float64, rose bool, o *Outcome) {
	e := &l.ends
	long, known := e.long(l.length), l.known()
	switch {
	case known:
		e.at = l.leaps.last(s)
		e.triedAt, e.openedAt, rose = e.at, e.at, false
		if l.window && s < l.resetAt {
			l.resetAt = e.at + long
		}
	case l.leaps.held: // the leaps were those of a log, or windows end at another time
		l.window, *e = false, ends{longestAfter: e.longestAfter}
	case l.window && rose:
		l.window, l.noWindowUntil = false, s+noWindowFor*long
	}
	l.leaps.held = known
	switch {
	case o.Verdict == Throttled && o.After > 0:
		e.longestAfter = max(e.longestAfter, o.After.Seconds())
		if end := s + o.After.Seconds(); e.named(end, l.length, l.tolerance()) && l.window {
			l.resetAt, l.agreedSince = end, s
		}
	case o.Verdict != Served || !o.Hints.Remaining.OK, e.at == 0 || sent < e.at-l.tolerance(), s < l.noWindowUntil:
	case l.window && s < l.resetAt:
	default:
		if e.triedAt != e.at { // the first answer after that end
			e.closed++
			if l.shown >= max(smallest+2*l.policy*(s-e.at), l.most*fallen) {
				e.openedAt, e.closed = e.at, 0
			}
		}
		e.triedAt = e.at
		if long < distantReset && !known || e.openedAt != e.at && !l.window {
			return
		}
		if e.byFirstHit {
			e.at, e.triedAt, e.openedAt = sent, sent, sent
		}
		l.window, l.agreedSince = true, s
		l.resetAt = e.at + long*math.Ceil(max(s-e.at, 1e-9)/long)
	}
}

// named records an end that a refusal names, of windows of the stated length, zero if none is.
// It reports whether that is another end than the last, give or take apart seconds.
func (e *ends) named(end, stated, apart float64) bool {
	after := end - e.at
	if after <= apart {
		if after > -apart {
			e.at = min(e.at, end)
		}
		return false
	}
	if e.openedAt == e.at && e.at > 0 {
		long := e.long(stated)
		n := max(math.Round(after/long), 1) // windows from one end to the other
		if stated == 0 {
			e.every = after / n
		} else if math.Abs(after-n*long) > apart {
			e.byFirstHit = true
		}
	}
	e.at = end
	return true
}

// long returns the length of a window in seconds: as stated, as learnt, or the longest Retry-After.
func (e *ends) long(stated float64) float64 {
	switch {
	case stated > 0:
		return stated
	case e.every > 0:
		return e.every
	}
	return e.longestAfter
}

// after returns how long a refusal says to wait. Without a Retry-After the reset counts, unless
// something remains, as then another limit refused. The reset of a bucket, when it would be
// full, does not: the bucket has a token long before.
func (l *level) after(o *Outcome) time.Duration {
	h := o.Hints
	if o.After > 0 || o.Verdict != Throttled || !h.Reset.OK || h.Remaining.V > 0 || l.fills(h.Reset.V.Seconds()) {
		return o.After
	}
	after := min(h.Reset.V, 24*time.Hour)
	if l.length > 0 { // a window later some of it is back
		after = min(after, seconds(l.length))
	}
	return after
}
