package load

import "time"

// AIMD is a concurrency limit with additive increase and multiplicative
// decrease: the AIMDLimit of Netflix's concurrency-limits
// (github.com/Netflix/concurrency-limits, 2018, Apache 2.0). Each request that
// is served while at least half of the limit is in flight raises it by one; each
// that fails, is refused or takes longer than Timeout multiplies it by 0.9.
//
// The limit begins at 10. It knows latency by Timeout alone: a server that
// queues is filled until requests time out. The zero value is ready.
type AIMD struct {
	// Max bounds the limit. If zero or below, 10,000.
	Max int
	// Timeout is the latency that counts as a failure. If zero or below, 5 s.
	Timeout time.Duration

	limit int // zero: not begun
}

const (
	aimdStart   = 10
	aimdCut     = 0.9
	aimdTimeout = 5 * time.Second
)

// Limit returns how many may be in flight now.
func (a *AIMD) Limit() int {
	if a.limit == 0 {
		return min(aimdStart, highest(a.Max))
	}
	return min(a.limit, highest(a.Max)) // which may have been lowered
}

// Observe learns from a request that has ended.
func (a *AIMD) Observe(s Sample) {
	a.limit = a.Limit()
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = aimdTimeout
	}
	switch {
	case s.End == Ignored:
	case s.End != Served || s.Took > timeout:
		a.limit = max(1, min(a.limit-1, int(float64(a.limit)*aimdCut)))
	case 2*s.InFlight >= a.limit:
		a.limit = min(a.limit+1, highest(a.Max))
	}
}
