package peers

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// One start and its answer a millisecond, every tenth throttled.
func BenchmarkController(b *testing.B) {
	for _, p := range policies() {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			c, now := p.make(), t0
			for i := 0; b.Loop(); i++ {
				r := pace.Request{Since: now, Luck: luckOf(1, uint64(i), 0), Cost: 1}
				now = now.Add(max(c.Wait(now, r), 0))
				c.Start(now, r)
				o := pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: pace.Served}}
				if p.name == "informed" {
					o.Hints.Remaining = pace.Some(int64(i & 15))
				}
				if i%10 == 9 {
					o.Verdict = pace.Throttled
				}
				now = now.Add(time.Millisecond)
				c.Observe(now, o)
			}
		})
	}
}
