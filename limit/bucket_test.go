package limit

import (
	"testing"
	"time"
)

func checkLeaky(t testing.TB, count, period int64, script []byte) int {
	l := Limit{Count: count, Burst: 1 + count/(1+period%7), Period: time.Duration(period) * us}
	p := player{TB: t, limit: l, take: takeState(), naive: newNaiveBucket(l), now: t0.UnixMicro()}
	p.naive.(*naiveBucket).last = p.now
	p.play(script)
	return p.steps
}

// FuzzLeakyBucket: a token bucket decides as a leaky bucket, used as a meter,
// of the same size and rate.
func FuzzLeakyBucket(f *testing.F) { fuzzScripts(f, checkLeaky) }

func TestSoakLeakyBucket(t *testing.T) { soak(t, checkLeaky) }
