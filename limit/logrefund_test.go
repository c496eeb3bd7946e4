package limit

import (
	"testing"
	"time"
)

// checkLogBack plays to a Log what gives back as well. Slots of a microsecond
// each, as many as make a Period, and forgotten at once, are a log.
func checkLogBack(t testing.TB, count, period int64, script []byte) int {
	l := Limit{Kind: SlidingLog, Count: 1 + count%1000, Period: time.Duration(period) * us}
	var log Log
	p := player{
		TB: t, limit: l, take: log.Take, now: t0.UnixMicro(), back: 2 * (period + skew),
		naive: &naiveSlots{count: l.Count, width: 1, n: period - 1},
	}
	p.play(script)
	return p.steps
}

func FuzzLogBack(f *testing.F) { fuzzScripts(f, checkLogBack) }

func TestSoakLog(t *testing.T) { soak(t, checkLogBack) }
