package load

// Gradient2 is the Gradient2Limit of Netflix's concurrency-limits
// (github.com/Netflix/concurrency-limits, 2018, Apache 2.0). It compares the
// latency of each request with a long average of it, over 600 samples:
//
//	gradient = 1.5 · average/latency, within ½ and 1
//	limit'   = 0.8 · limit + 0.2 · (limit · gradient + 4)
//
// While less than half of the limit is in flight it does not change. Where
// the average is above twice the latency, it falls by a twentieth. Failures and
// refusals count by the time they took, as published.
//
// The limit begins at 20, and is at least Min. As the average follows a queue
// that grows slowly, so does the limit. The zero value is ready.
type Gradient2 struct {
	// Min and Max bound the limit. If zero or below, 20 and 10,000. (The published
	// defaults are 20 and 200.)
	Min, Max int

	limit float64 // zero: not begun
	long  float64 // the average, in seconds
	n     int     // samples in it, while there are few
}

const (
	gradient2Start     = 20
	gradient2Queue     = 4
	gradient2Smooth    = 0.2
	gradient2Tolerance = 1.5
	gradient2Long      = 600 // samples of the long average
	gradient2Warm      = 10  // samples that it begins with
)

// Limit returns how many may be in flight now.
func (g *Gradient2) Limit() int {
	if g.limit == 0 {
		return g.within(gradient2Start)
	}
	return min(int(g.limit), highest(g.Max)) // which may have been lowered
}

func (g *Gradient2) within(limit int) int {
	least := g.Min
	if least <= 0 {
		least = gradient2Start
	}
	return min(max(limit, least), highest(g.Max))
}

// Observe learns from a request that has ended.
func (g *Gradient2) Observe(s Sample) {
	if s.End == Ignored || s.Took <= 0 {
		return
	}
	if g.limit == 0 {
		g.limit = float64(g.Limit())
	}
	short := s.Took.Seconds()
	if g.n < gradient2Warm {
		g.n++
		g.long += (short - g.long) / float64(g.n)
	} else {
		g.long += (short - g.long) * 2 / (gradient2Long + 1)
	}
	long := g.long
	if long > 2*short {
		g.long *= 0.95
	}
	if float64(s.InFlight) < g.limit/2 {
		return
	}
	gradient := max(0.5, min(1, gradient2Tolerance*long/short))
	next := g.limit*(1-gradient2Smooth) + gradient2Smooth*(g.limit*gradient+gradient2Queue)
	g.limit = min(max(next, float64(g.within(1))), float64(highest(g.Max)))
}
