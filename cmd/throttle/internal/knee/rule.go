package knee

import (
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// Rule is a recommended limit.
type Rule struct {
	// Limit is a token bucket below the knee. It is zero, without a limit, if
	// none can be recommended.
	Limit limit.Limit
	// Concurrency is the concurrency limit by Little's law. If zero, none can be
	// recommended.
	Concurrency int
}

// DefaultHeadRoom is the share of the knee that a Rule leaves unused.
const DefaultHeadRoom = 0.2

// Rule returns the limit to set, headRoom below the knee; zero is
// DefaultHeadRoom.
func (r Result) Rule(headRoom float64) Rule { return Rule{} }

// Scenario returns a scenario in which the simulator's service has the curve that
// was measured, under the load of the given level, and reports whether one
// fits.
func (r Result) Scenario(level float64) (s sim.Scenario, ok bool) { return s, false }
