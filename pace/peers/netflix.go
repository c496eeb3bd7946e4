package peers

import (
	"slices"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Netflix is AIMDLimit of Netflix's concurrency-limits with its defaults, under
// its SimpleLimiter: an adaptive concurrency limit, ten at first. Each request
// that is refused or takes longer than 5 s lowers it by a tenth, to one at least.
// Each one served raises it by one, if half of the limit was in use when it
// started. A refused caller asks again after Pause.
type Netflix struct {
	// Full raises the limit only when all of it was in use, and has no timeout,
	// as the Go port github.com/platinummonkey/go-concurrency-limits.
	Full bool

	limit    int // 0: ten
	inFlight int // 0 to limit, more after a cut
	started  flights
}

var _ pace.Controller = (*Netflix)(nil)

// Limit returns how many requests may be in flight.
func (n *Netflix) Limit() int {
	if n.limit == 0 {
		return 10
	}
	return n.limit
}

// Wait returns Never while the limit is in use.
func (n *Netflix) Wait(_ time.Time, r pace.Request) time.Duration {
	if n.inFlight+max(r.Place, 1) > n.Limit() {
		return pace.Never
	}
	return 0
}

// Start takes a place.
func (n *Netflix) Start(now time.Time, _ pace.Request) {
	n.inFlight++
	n.started.add(now, n.inFlight)
}

// Observe frees a place and adjusts the limit. A request that failed for
// another reason changes nothing.
func (n *Netflix) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	n.inFlight--
	was := n.started.take(o.Sent)
	slow := !n.Full && now.Sub(o.Sent) > 5*time.Second
	switch {
	case o.Sent.IsZero():
	case o.Verdict == pace.Throttled || o.Verdict == pace.Served && slow:
		n.limit = max(1, int(float64(n.Limit())*0.9))
	case o.Verdict == pace.Served && (was >= n.Limit() || !n.Full && 2*was >= n.Limit()):
		n.limit = n.Limit() + 1
	}
	if refused(o) && !o.Sent.IsZero() {
		return Pause
	}
	return 0
}

// flights are the requests not yet observed.
type flights []flight

// flight is how many were in flight when one started, itself included.
type flight struct {
	sent time.Time
	n    int
}

func (f *flights) add(now time.Time, n int) { *f = append(*f, flight{now, n}) }

// take removes the request sent at that time, or the last one for a request that
// was never sent, whose start is unknown.
func (f *flights) take(sent time.Time) (was int) {
	for i, one := range *f {
		if one.sent.Equal(sent) || i == len(*f)-1 {
			*f = slices.Delete(*f, i, i+1)
			return one.n
		}
	}
	return 0
}
