package survey

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// sharedName is the policy of one rate limiter that all clients share.
const sharedName = "shared"

// shared is what a coordinator of all clients could do which knows the limit,
// its state and its changes, but how long a request will be on its way only
// within bounds: a rate limiter of the same kind before the server's, which lets
// a request go when the server will admit it however soon or late it arrives.
// Clients take turns by how many requests they have sent.
func shared(s sim.Scenario) sim.Policy {
	return sim.Policy{Name: sharedName, Begin: func() func() pace.Controller {
		b := newBefore(s)
		return func() pace.Controller { return &client{before: b} }
	}}
}

// before is the rate limiter before the server's.
type before struct {
	limit       limit.Limit // of which changes set the rate
	part        limit.Limit // as it is kept to
	state       limit.State
	log         limit.Log
	slots       limit.Slots
	changes     []sim.Change  // to come
	early, late time.Duration // on the way to the server
	free        time.Time     // when the next may go
}

func newBefore(s sim.Scenario) *before {
	half, tail := s.Network.Latency.Seconds()/2, math.Exp(2*s.Network.Tail)
	way := func(x float64) time.Duration { return time.Duration(x * 1e9) }
	b := &before{
		limit: s.Server.Limit, changes: s.Server.Changes,
		early: way(half * (1 - s.Network.Spread) / tail), late: way(half * (1 + s.Network.Spread) * tail),
	}
	if b.limit.Burst == 0 {
		b.limit.Burst = b.limit.Count
	}
	b.part = b.kept()
	start := time.Unix(0, 0)
	if s.Server.Start.OK && b.limit.Kind == limit.TokenBucket {
		b.take(start, limit.Ask{N: max(b.part.Burst-s.Server.Start.V, 0), Debt: true})
	}
	b.look(start)
	return b
}

// kept is the limit that requests keep to when they leave, so that they keep to
// the server's when they arrive, between early and late: its period is longer by
// what these differ, or of a bucket the burst smaller, and the interval longer
// where there is too little of that.
func (b *before) kept() limit.Limit {
	l, differ := b.limit, b.late-b.early
	switch l.Kind {
	case limit.SlidingLog, limit.FirstHitWindow:
		l.Period += differ
	case limit.TokenBucket:
		if l.Count > 0 {
			over := float64(l.Count)*differ.Seconds()/l.Period.Seconds() - float64(l.Burst-1)
			l.Burst = max(1, l.Burst-int64(math.Ceil(float64(l.Count)*differ.Seconds()/l.Period.Seconds())))
			l.Period = time.Duration(float64(l.Period) * (1 + max(0, over)))
		}
	}
	return l
}

// take asks at the time of arrival.
func (b *before) take(at time.Time, a limit.Ask) (d limit.Decision) {
	a.Limit = b.part
	switch {
	case b.part.Count <= 0:
	case b.part.Kind == limit.SlidingLog:
		return b.log.Take(at, a)
	case b.part.Kind == limit.SlidingSlots:
		return b.slots.Take(at, a)
	}
	b.state, d = limit.Take(b.state, at, a)
	return d
}

// look settles when the next may go.
func (b *before) look(now time.Time) {
	for range 3 { // what it waits for may be a change, and then a window
		at := now.Add(b.early)
		for len(b.changes) > 0 && !at.Before(time.Unix(0, int64(b.changes[0].At))) {
			b.change(at)
		}
		wait := b.edge(at)
		if wait == 0 && b.take(at, limit.Ask{}).Remaining < 1 {
			wait = b.take(at, limit.Ask{N: 1}).RetryAfter
		}
		if len(b.changes) > 0 {
			wait = min(wait, time.Unix(0, int64(b.changes[0].At)).Sub(at))
		}
		b.free = now.Add(min(wait, 365*24*time.Hour))
		if wait == 0 {
			return
		}
		now = b.free
	}
}

func (b *before) change(at time.Time) {
	c := b.changes[0]
	b.changes = b.changes[1:]
	old := b.part
	b.limit.Count, b.limit.Period = c.Count, c.Period
	if b.part = b.kept(); c.Count == 0 && b.limit.Kind == limit.TokenBucket {
		b.part.Count, b.part.Period = 1, 300*24*time.Hour // nothing comes in
	}
	b.state = limit.Change(b.state, at, old, b.part)
}

// edge is how long to wait so that a request arrives in one window, or slot,
// however late it is; none where these are too short to tell.
func (b *before) edge(at time.Time) time.Duration {
	width := b.part.Period
	switch b.part.Kind {
	case limit.TokenBucket, limit.SlidingLog, limit.FirstHitWindow:
		return 0
	case limit.SlidingSlots:
		n := time.Duration(10)
		if b.part.Slots > 0 {
			n = time.Duration(b.part.Slots)
		}
		width = (width-1)/n + 1
	}
	left := width - time.Duration(at.UnixNano()%int64(width))
	if differ := b.late - b.early; differ < width/2 && left <= differ {
		return left
	}
	return 0
}

// client is one of those that share it.
type client struct {
	*before
	sent time.Duration // as nanoseconds: those who sent least go first
}

// Wait implements pace.Controller.
func (c *client) Wait(now time.Time, r pace.Request) time.Duration {
	if r.Place > 1 {
		return pace.Never
	}
	return c.free.Add(c.sent).Sub(now)
}

// Start implements pace.Controller.
func (c *client) Start(now time.Time, _ pace.Request) {
	c.sent++
	c.look(now)
	c.take(now.Add(c.early), limit.Ask{N: 1})
	c.look(now)
}

// Observe implements pace.Controller.
func (c *client) Observe(time.Time, pace.Outcome) (rest time.Duration) { return 0 }
