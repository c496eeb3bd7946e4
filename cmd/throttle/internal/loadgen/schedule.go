package loadgen

import (
	"math"
	"math/rand/v2"
	"time"
)

// Schedule is when requests start, as offsets from the start of the load: a pure
// function of its fields. It is not safe for concurrent use.
type Schedule struct {
	// Rate is in requests a second. At zero or below, nothing ever starts.
	Rate float64
	// Even spaces requests by exactly 1/Rate. If not set, they arrive as a Poisson
	// process: by chance, as those of many independent callers.
	Even bool
	// Seed draws the chance.
	Seed uint64

	count  int64
	at     float64 // seconds
	random *rand.Rand
}

// Never is an offset that does not come.
const Never = time.Duration(math.MaxInt64)

// Next is the offset of the next request. It never falls.
func (s *Schedule) Next() time.Duration {
	if !(s.Rate > 0) {
		return Never
	}
	if s.Even {
		s.at = float64(s.count) / s.Rate // not a sum: it would drift
		s.count++
		return offset(s.at)
	}
	if s.random == nil {
		s.random = rand.New(rand.NewPCG(s.Seed, 0))
	}
	s.at += s.random.ExpFloat64() / s.Rate
	return offset(s.at)
}

// offset is seconds as a Duration.
func offset(seconds float64) time.Duration {
	if seconds >= Never.Seconds() {
		return Never
	}
	return time.Duration(seconds * float64(time.Second))
}
