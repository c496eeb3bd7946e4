package ticks

import (
	"fmt"
	"math"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Slots are the means per second, or the largest, of values in steps up to now. A
// slot without a tick is NaN.
func Slots(all []Tick, now, step int64, largest bool, value func(*Tick) float64) []float64 {
	n := Kept / step
	sums, counts := make([]float64, n), make([]float64, n)
	end := now/step + 1
	for i := range all {
		at := n - (end - all[i].ID/step)
		v := value(&all[i])
		if at < 0 || at >= n || math.IsNaN(v) {
			continue
		}
		if largest {
			sums[at], counts[at] = max(sums[at], v), 1
		} else {
			sums[at], counts[at] = sums[at]+v, counts[at]+1
		}
	}
	for i := range sums {
		sums[i] /= counts[i] // 0/0 is NaN
	}
	return sums
}

// Rate writes a number of decisions a second.
func Rate(x float64) string {
	switch {
	case x == 0 || math.IsNaN(x):
		return "0"
	case x < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
	case x < 10_000:
		return words.Whole(int64(math.Round(x)))
	case x < 1e6:
		return fmt.Sprintf("%.3gk", x/1e3)
	}
	return fmt.Sprintf("%.3gM", x/1e6)
}

// Seconds writes a latency given in seconds, a dash for none.
func Seconds(x *float64) string {
	switch {
	case x == nil || *x == 0:
		return "–"
	case *x < 1e-3:
		return fmt.Sprintf("%.0f µs", *x*1e6)
	case *x < 1:
		return fmt.Sprintf("%.3g ms", *x*1e3)
	}
	return fmt.Sprintf("%.3g s", *x)
}

// PerSecond returns the decisions of a rule, or all if it is empty, by the second.
func (t *Tick) PerSecond(rule string) (passed, refused, shadow float64) {
	c, per := t.Count, max(t.Seconds, 1e-3)
	if rule != "" {
		c = t.Rules[rule]
	}
	return float64(c.Passed) / per, float64(c.Refused) / per, float64(c.Shadow) / per
}
