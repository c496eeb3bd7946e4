package limit

import (
	"math"
	"sort"
	"time"
)

// MaxLog is the largest Count that a Log holds. A larger one counts as MaxLog:
// events that could not be remembered are not admitted.
const MaxLog = 1_000_000

// Log is the sliding window log of one key: at most Count in any window of
// length Period, and exactly so, because it remembers the time of each event. It
// is the strictest of the kinds and costs the most: 16 bytes for each instant
// with an event, up to Count of them (or, with Debt, twice as many), and O(log
// Count) for a Take.
//
// The zero Log is of a key never seen. It is not safe for concurrent use, and a
// copy of a used one is no independent Log: see Clone.
type Log struct {
	ring  []logEntry // of a length that is a power of two
	first int        // place of the oldest entry
	size  int        // entries
	base  int64      // what was taken before the oldest entry
}

// logEntry is what was taken at one instant. Sums, not amounts, are kept: so
// the use of a window is one difference, and its edge is found by bisection.
type logEntry struct {
	at   int64 // microseconds of Unix time
	upto int64 // what was taken since ever, with this; only differences count
}

// Take decides a at the time now, in whole microseconds rounded down. Of the
// Limit it uses Count and Period, whatever its Kind. It reads the rest of the
// Ask as the function Take does; a refund removes the newest events of the last
// Period. If the Limit differs from the one before, its events count under the
// new one, but events that had left the old window may be forgotten.
//
// A clock that goes back grants nothing: an Ask from before the last one granted
// is decided, and remembered, as of that one. If it goes back by more than a
// second, events further in the future are moved to a second from now, also by a
// peek or a refusal; so no key is locked out for longer than a Period and a
// second.
func (l *Log) Take(now time.Time, a Ask) Decision {
	a.Limit.Kind = SlidingLog
	d := Decision{Max: a.Limit.Max(), At: now}
	switch {
	case a.Limit.Unlimited():
		d.OK, d.N, d.Remaining = true, a.N, math.MaxInt64
	case a.Limit.Count <= 0:
		takeNothing(&a, &d)
	default:
		l.take(now.UnixMicro(), &a, &d)
	}
	return d
}

// take fills in d.
func (l *Log) take(now int64, a *Ask, d *Decision) {
	count, period := d.Max, a.Limit.micros()
	t := l.clamp(now)
	gone := l.left(t, period)
	used := l.total() - l.sum(gone)
	d.N, d.OK = a.grant(max(count-used, 0), used > count)
	switch {
	case !d.OK && a.least() > count:
		d.RetryAfter = Never
	case !d.OK:
		// It passes when used + least <= count, that is when all up to the
		// sum total + least - count have left.
		leave := l.total() + a.least() - count
		last := l.search(func(e *logEntry) bool { return e.upto-leave >= 0 })
		d.RetryAfter = l.until(last, now, period)
	case d.N > 0:
		d.N = charged(d.N, used, count)
		l.drop(gone)
		l.add(t, d.N)
		used += d.N
	case d.N < 0:
		d.N = comesBack(d.N, used)
		used -= l.giveBack(gone, -d.N)
	}
	d.Remaining = max(count-used, 0)
	if used > 0 {
		d.ResetAfter = l.until(l.size-1, now, period)
	}
}

// Used returns the number of events in the last Period of limit at the time now,
// including any debt. Use it to change to another Kind, see Change.
func (l *Log) Used(now time.Time, limit Limit) int64 {
	if limit.Unlimited() || limit.Count <= 0 {
		return 0
	}
	t := l.clamp(now.UnixMicro())
	return l.total() - l.sum(l.left(t, limit.micros()))
}

// left is how many entries have left the window at t: those with
// at + period <= t.
func (l *Log) left(t, period int64) int {
	return l.search(func(e *logEntry) bool { return later(e.at, period) > t })
}

// until is how long until entry i leaves the window.
func (l *Log) until(i int, now, period int64) time.Duration {
	return span{us: later(l.at(i).at, period) - now}.duration()
}

// at is entry i, the oldest being 0.
func (l *Log) at(i int) *logEntry { return &l.ring[(l.first+i)&(len(l.ring)-1)] }

// sum is what was taken before entry i.
func (l *Log) sum(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.at(i - 1).upto
}

func (l *Log) total() int64 { return l.sum(l.size) }

// search is the first entry that is so, or size. All after it are so, too.
func (l *Log) search(so func(*logEntry) bool) int {
	return sort.Search(l.size, func(i int) bool { return so(l.at(i)) })
}

// clamp moves what is further ahead than it could honestly be to where it could
// be, and returns the time to answer as of.
func (l *Log) clamp(now int64) int64 {
	latest := later(now, skew)
	if i := l.search(func(e *logEntry) bool { return e.at > latest }); i < l.size {
		*l.at(i) = logEntry{latest, l.total()}
		l.size = i + 1
	}
	if l.size == 0 {
		return now
	}
	return max(now, l.at(l.size-1).at)
}

// drop forgets the oldest n entries.
func (l *Log) drop(n int) {
	l.base = l.sum(n)
	l.first += n
	l.size -= n
}

// add remembers n at the time t, not before the newest entry.
func (l *Log) add(t, n int64) {
	upto := l.total() + n
	switch {
	case n == 0:
		return
	case l.size > 0 && l.at(l.size-1).at == t:
		l.at(l.size - 1).upto = upto
		return
	case l.size == len(l.ring):
		l.grow()
	}
	l.size++
	*l.at(l.size - 1) = logEntry{t, upto}
}

// giveBack takes n, and no more than was taken since, off the newest entries,
// and returns it.
func (l *Log) giveBack(since int, n int64) int64 {
	keep := l.total() - n
	for l.size > since && l.sum(l.size-1)-keep >= 0 {
		l.size--
	}
	if l.size > since {
		l.at(l.size - 1).upto = keep
	}
	return n
}

// grow doubles the ring.
func (l *Log) grow() {
	ring := make([]logEntry, max(8, 2*len(l.ring)))
	for i := range l.size {
		ring[i] = *l.at(i)
	}
	l.ring, l.first = ring, 0
}
