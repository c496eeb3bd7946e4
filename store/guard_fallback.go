package store

import (
	"context"
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// decide decides a by the Fallback.
func (g *Guard) decide(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if f, ok := ctx.Value(fallbackKey{}).(func(string) (Fallback, bool)); ok {
		return g.each(ctx, f, a, d)
	}
	return g.together(ctx, g.Fallback, a, d)
}

// together decides all asks by one Fallback.
func (g *Guard) together(ctx context.Context, f Fallback, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	switch f {
	case FallbackAllow:
		pass(a, d)
		return true, nil
	case FallbackDeny:
		return refuse(a, d), nil
	}
	return g.share(ctx, a, d)
}

// fallbackKey is the context key of what [WithFallback] was given.
type fallbackKey struct{}

// WithFallback returns a copy of ctx, for calls of Take, by which a [Guard]
// takes the Fallback of each key from f, or its own if f is not ok. f is called
// in the goroutine of the caller, and only where the Store does not decide.
// Package rules uses it for rules with an Away.
func WithFallback(ctx context.Context, f func(key string) (fallback Fallback, ok bool)) context.Context {
	return context.WithValue(ctx, fallbackKey{}, f)
}

// each decides each ask by the Fallback that f chooses. If one is refused, none is
// charged.
func (g *Guard) each(ctx context.Context, f func(string) (Fallback, bool), a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	var parts [FallbackDeny + 1][]int // of a, by Fallback
	for i := range a {
		by, chosen := f(a[i].Key)
		if !chosen {
			by = g.Fallback
		}
		by = min(by, FallbackDeny)
		parts[by] = append(parts[by], i)
	}
	ok = true
	for by := FallbackDeny; ; by-- { // what is refused first, so that the share is not charged
		if n := parts[by]; len(n) > 0 {
			asks := make([]limit.Ask, len(n), len(n)+1)
			for j, i := range n {
				asks[j] = a[i]
			}
			if !ok { // refused with them, so that each is told as if it were asked alone
				asks = append(asks, limit.Ask{Key: a[parts[FallbackDeny][0]].Key, Limit: nothing, N: 1})
			}
			told := make([]limit.Decision, len(asks))
			passes, err := g.together(ctx, by, asks, told)
			if err != nil {
				return false, err
			}
			ok = ok && passes
			for j, i := range n {
				d[i] = told[j]
			}
		}
		if by == 0 {
			return ok, nil
		}
	}
}

// nothing is a limit that allows nothing.
var nothing = limit.Limit{Period: time.Second}

// pass admits everything, uncharged.
func pass(a []limit.Ask, d []limit.Decision) {
	now := time.Now()
	for i := range min(len(a), len(d)) {
		most := a[i].Limit.Max()
		d[i] = limit.Decision{OK: true, Max: most, Remaining: most, At: now}
	}
}

// refuse refuses everything but refunds.
func refuse(a []limit.Ask, d []limit.Decision) (ok bool) {
	now := time.Now()
	ok = true
	for i := range a {
		d[i] = limit.Decision{OK: a[i].N < 0, Max: a[i].Limit.Max(), At: now}
		if !d[i].OK {
			ok, d[i].RetryAfter = false, retrySoon
		}
	}
	return ok
}

// share decides by this process's share of each limit.
func (g *Guard) share(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	n := int64(g.instances())
	if n == 1 {
		return g.local.Take(ctx, a, d)
	}
	own := make([]limit.Ask, len(a))
	for i := range a {
		own[i] = a[i]
		own[i].Limit = shareOf(a[i].Limit, n)
	}
	ok, err = g.local.Take(ctx, own, d)
	for i := range d {
		d[i].Max = a[i].Limit.Max()
		if d[i].RetryAfter == limit.Never && leastOf(a[i]) <= d[i].Max {
			d[i].RetryAfter = retrySoon // it may pass once the breaker closes
		}
	}
	return ok, err
}

// instances returns the number of processes now.
func (g *Guard) instances() int {
	n := g.Instances
	if g.InstancesFunc != nil {
		n = g.InstancesFunc()
	}
	return max(n, 1)
}

// leastOf returns the smallest grant that a accepts.
func leastOf(a limit.Ask) int64 {
	if a.Min > 0 {
		return min(a.Min, a.N)
	}
	return a.N
}

// shareOf returns the n-th part of l, so that n of them together allow no more
// than l does; but each allows one at a time. A remainder is not used.
//
//	of a token bucket   Burst/n, and Count in n × Period
//	of any other        Count/n, or 1 in n/Count Periods if that is less
func shareOf(l limit.Limit, n int64) limit.Limit {
	if l.Unlimited() || l.Count <= 0 {
		return l
	}
	if l.Kind == limit.TokenBucket || l.Kind > limit.CalendarWindow { // unknown kinds too
		l.Burst = max(1, l.Max()/n)
		if l.Period > math.MaxInt64/time.Duration(n) {
			l.Count = max(1, l.Count/n)
			return l
		}
		l.Period *= time.Duration(n)
		return l
	}
	if l.Count = l.Max(); l.Count >= n { // a SlidingLog has a MaxLog
		l.Count /= n
		return l
	}
	periods := (n-1)/l.Count + 1
	l = withoutCalendar(l)
	l.Count = 1
	l.Period = min(l.Period, math.MaxInt64/time.Duration(periods)) * time.Duration(periods)
	return l
}

// withoutCalendar returns a CalendarWindow of at most a Week as a FixedWindow of the
// same length: 2 minutes would be rounded up to an hour of the calendar, 2 days to a
// week. Months come in any number: its Period is rounded up to whole ones, as 2 × 40 days
// are less than 2 × 2 months.
func withoutCalendar(l limit.Limit) limit.Limit {
	if l.Kind != limit.CalendarWindow {
		return l
	}
	for _, unit := range [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour, limit.Week} {
		if l.Period <= unit {
			return limit.Limit{Kind: limit.FixedWindow, Count: l.Count, Period: unit}
		}
	}
	if months := (l.Period-1)/limit.Month + 1; months <= math.MaxInt64/limit.Month {
		l.Period = months * limit.Month
	}
	return l
}
