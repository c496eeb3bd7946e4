package pace

import (
	"math"
	"time"
)

// buckets holds what a level knows of a limit that is a token bucket.
type buckets struct {
	most      float64 // the highest r seen
	full      float64 // r after one request of a full bucket, as stated
	topsInRow int     // answers in a row that saw most, and no more
	sinceRise int     // answers since most last rose
	tiny      bool    // the bucket holds no more than most
}

const (
	topsToRise       = 2   // answers in a row that saw most, which rising begins with
	topsBelieved     = 4   // of those, which are believed where more was stated and nobody else uses it
	topsCertain      = 12  // of those, which say that the bucket holds no more
	smallAfter       = 4.0 // to the power of 1 + most: answers after which it is small,
	smallAfterStated = 100 // and at least so many where more was stated
)

// top takes in r as the most that remained so far, or as seen again; paced: by the level.
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

// small reports whether the bucket holds no more than 4, as stated, or was seen to hold no
// more than 3. What remains of so few says less than refusals do. A large one that its clients
// keep nearly empty looks the same for a while, so the more was seen the longer it takes.
func (b *buckets) small() bool {
	switch {
	case b.full > 0 && b.full <= smallest:
		return b.sinceRise >= topsBelieved
	case b.full > 0 && b.most >= 1 && b.sinceRise < smallAfterStated: // nothing at all is not believed for so long
		return false
	}
	return b.most < smallest && float64(b.sinceRise) >= math.Pow(smallAfter, 1+b.most)
}

// brim returns r after one request of a full bucket: as stated, or the highest seen, whichever
// is more; the highest seen alone once it was seen several times in a row, if no other client
// was noticed.
func (l *level) brim() float64 {
	if l.topsInRow >= topsBelieved && l.othersFor <= 0 {
		return l.most
	}
	return max(l.most, l.full)
}

// windows holds what a level knows of a limit that is a fixed window.
type windows struct {
	window        bool    // the limit is one
	resetAt       float64 // when it ends
	agreedSince   float64 // since when resets agree
	startLevel    float64 // what remained then, or when something was last given back
	mustAgree     float64 // for how long they must, seconds
	misjudged     bool    // a window that refusals named was none
	noWindowUntil float64 // until when the limit is taken for no fixed window
	provenAhead   float64 // seconds ahead that a reset was told, and came true
	ended         int     // windows that ended as their reset had said
	moved         int     // times that the reset moved away before it came, since one came or stood,
	nearest       float64 // and how near it was then at the nearest, seconds
	returnDelay   float64 // how long after it to come back, seconds
	passOver      bool    // leave what is left of this window to the others
	unseen        int     // answers after the end that did not say what remains, in a row
	rtt           float64 // mean seconds from start to answer
	ends          ends
}

const (
	rush         = 1.0  // seconds in which a window is spent, by a factor of e, at once
	noWindowFor  = 10.0 // windows, in which none is taken for fixed that was not
	slack        = 1.1  // seconds: resets come rounded up to whole ones
	agreement    = 3.0  // seconds for which they agree, at least
	distantReset = 5.0  // seconds to a reset that would be seen to move,
	fallen       = 0.5  // while so much of the most that remained was used,
	fellBy       = 8.0  // and so many requests
	notOpened    = 6    // ends after which little remained, in a row: it was none
	movedOn      = 4    // times that a reset moves away,
	farther      = 4.0  // and by which factor, after which it is of a bucket
	unseenMost   = 4    // answers in a row that do not show the new window, after which it is left
	lastPart     = 0.25 // of what may be no window, for which its last request waits

	leadOf      = 8.0  // a first flight may be this part of what remains,
	leadOfQuota = 64.0 // or of the policy, where nothing tells what remains,
	leadMost    = 16.0 // requests; more sends clients that start together far apart
	leadWithin  = 1.0  // seconds, where answers take no longer
)

// lead returns how many requests may be in flight at first, by what the server says of the
// limit: a part of what remains, so that clients that share it and start together have
// room; else a smaller part of a stated policy. It is zero where answers take longer than
// a second, as the flight grows as fast by time.
func (l *level) lead(rtt float64) float64 {
	part := l.quota / leadOfQuota
	if l.seenAt > 0 {
		part = l.shown / leadOf / max(1, l.peers)
	}
	if l.anyRefused || rtt > leadWithin {
		return 0
	}
	return min(part, leadMost)
}

// within is the instant at for the next start, seen in the light of the window:
// at its end when nothing is left in it, and never later. A reset further ahead
// than an hour is not trusted blindly: then there is one try an hour, unless a window
// has ended when its reset had said so long before, or the policy is of one so long.
func (l *level) within(s, at float64) float64 {
	if !l.on || !l.window || s >= l.resetAt {
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

// sent counts a request against the window, until an answer tells better.
func (l *level) sent(took float64) {
	if l.on && l.window {
		l.r = max(l.r-took, 0)
	}
}

// reset learns when the window ends from the reset that the server states, or else from
// its refusals. A fixed window does not give back before it ends, which rose reports, and
// does not end later than it is long.
func (l *level) reset(rtt, s, sent float64, rose bool, o Outcome) {
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
	l.judge(s, s+reset.V.Seconds(), o.Verdict == Served)
}

// judge decides whether resets name one instant, as a window's do, or move on with every
// request served, as a bucket's. They must have agreed for a while, or while much was
// used; within one window for longer, once that was wrong.
func (l *level) judge(s, reset float64, served bool) {
	apart := l.tolerance()
	switch {
	case s < l.noWindowUntil:
		l.window = false
		return
	case math.Abs(reset-l.resetAt) <= apart:
		l.resetAt = min(l.resetAt, reset)
		long := s-l.agreedSince >= max(l.mustAgree, agreement*apart/slack)
		if long && served {
			l.moved = 0
		}
		used := served && !l.misjudged && reset-s > distantReset && l.startLevel-l.shown >= max(fellBy, l.most*fallen)
		l.window = l.window || !l.fills(reset-s) && ((served || !l.misjudged) && long || used)
		return
	case reset > l.resetAt && s >= l.resetAt-apart: // the next window
		l.moved = 0
		if l.resetAt > 0 {
			l.ended++
		}
		if l.window && served && l.shown >= l.most*fallen {
			l.provenAhead = max(l.provenAhead, l.resetAt-l.agreedSince)
		}
	case l.window: // it was none
		l.misjudged = l.misjudged || served
		l.window, l.mustAgree = false, min(2*max(l.mustAgree, agreement), 8*agreement)
	case reset > l.resetAt:
		if l.moved++; l.moved == 1 || reset-s < l.nearest {
			l.nearest = reset - s
		}
	}
	l.resetAt, l.agreedSince, l.startLevel = reset, s, l.shown
}

// fills reports whether a reset so far ahead is when a bucket is full: it moved away as more
// was used.
func (w *windows) fills(ahead float64) bool { return w.moved >= movedOn && ahead > farther*w.nearest }

// apart returns how far from each other two instants may be to count as the same: they come
// in whole seconds, after a round trip that varies.
func (l *level) tolerance() float64 { return slack + l.rtt/4 }

// hidden reports whether the window has ended and answers do not say what remains of the new
// one: some servers say it only once little remains.
func (l *level) hidden(s, sent float64, o Outcome) bool {
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

// beyond returns how long after the next start the k-th after it comes, of which interval
// is the distance while something is left of the window. Beyond that they come in the windows
// after it: of each, this client's part of what was the most that remained.
func (l *level) beyond(s, k, interval float64) float64 {
	long := l.length
	if long == 0 {
		long = max(l.provenAhead, l.resetAt-l.agreedSince)
	}
	left := l.resetAt - s
	if !l.on || !l.window || left <= 0 || k <= l.r-1 {
		return k * interval
	}
	if l.r >= 1 { // the next start is in this window
		k -= l.r - 1
	} else { // it is at its end
		left = 0
	}
	each := max(l.most, l.full+1, 1) / max(1, l.peers)
	if l.burst || l.alone() {
		return left + math.Floor(k/each)*long
	}
	return left + k*long/each
}

// doubtful reports whether the last request of a window waits for its last quarter. A client
// alone that uses up two counters at once, and then waits for their reset, sees what it would
// see of a window twice as long, and is served half of what it could be. That request sees
// that something came back meanwhile. It is the last of the window after the first that ended
// as its reset had said, after the second, the fourth, the eighth, where no policy says how long
// they are.
func (l *level) doubtful() bool {
	return l.ended > 0 && l.ended&(l.ended-1) == 0 && l.length == 0 && l.r >= 1 && l.r < 2 &&
		l.most >= smallest && !l.freeStart && l.alone()
}

// ends holds the ends of windows that refusals name by their Retry-After, where the server
// states no reset.
type ends struct {
	at           float64 // the last that was named
	every        float64 // seconds from one to the next, where no policy states them; zero: not known
	longestAfter float64 // seconds to the end that was named longest before
	triedAt      float64 // the end after which something was served
	openedAt     float64 // the end after which much remained at once, as in a window
	closed       int     // ends in a row after which little remained
	byFirstHit   bool    // a window begins with the first request in it
}

// guess predicts the end of the window: one length after the last end that a refusal named,
// if after that end most of the limit was there at once, where a bucket refills bit by bit.
// A window that is known by that is none once six ends in a row brought little back.
func (l *level) guess(s, sent float64, rose bool, o Outcome) {
	e := &l.ends
	long, known := e.long(l.length), l.known()
	switch {
	case known:
		e.at = l.leaps.last(s)
		e.triedAt, e.openedAt, rose = e.at, e.at, false
		if l.window && s < l.resetAt {
			l.resetAt = e.at + long
		}
	case l.leaps.held: // the leaps were those of a log, say, or windows end at another time
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
		if e.triedAt != e.at { // the first answer after it
			e.closed++
			if l.shown >= max(smallest+2*l.policy*(s-e.at), l.most*fallen) {
				e.openedAt, e.closed = e.at, 0
			}
			l.window = l.window && e.closed < notOpened
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

// named records an end that a refusal names, of windows as long as the policy states, zero
// if none does. It reports whether it is another one than the last, give or take apart.
func (e *ends) named(end, stated, apart float64) bool {
	after := end - e.at
	if after <= apart {
		if after > -apart {
			e.at = min(e.at, end)
		}
		return false
	}
	if long := e.long(stated); e.openedAt == e.at && e.at > 0 && long > 0 {
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

// long returns the length of a window in seconds: as stated, as learnt, or at least.
func (e *ends) long(stated float64) float64 {
	switch {
	case stated > 0:
		return stated
	case e.every > 0:
		return e.every
	}
	return e.longestAfter
}

// after is how long to wait as a refusal says it. A reset counts as well, where
// nothing remains: else something else refused. A reset that moves away as more is used
// does not: it is when a bucket would be full, which has something long before.
func (l *level) after(o Outcome) time.Duration {
	h := o.Hints
	if o.After > 0 || o.Verdict != Throttled || !h.Reset.OK || h.Remaining.V > 0 || l.fills(h.Reset.V.Seconds()) {
		return o.After
	}
	after := min(h.Reset.V, 24*time.Hour)
	if l.length > 0 { // within a window there is something again
		after = min(after, seconds(l.length))
	}
	return after
}
