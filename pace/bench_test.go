package pace

import (
	"testing"
	"time"
)

// One start and its answer a millisecond, every tenth throttled.
func BenchmarkController(b *testing.B) {
	for _, p := range policies() {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			c, now := p.make(), t0
			for i := 0; b.Loop(); i++ {
				r := Request{Since: now, Luck: luckOf(1, uint64(i), 0), Cost: 1}
				now = now.Add(max(c.Wait(now, r), 0))
				c.Start(now, r)
				o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served}}
				if p.name == "informed" {
					o.Hints.Remaining = Some(int64(i & 15))
				}
				if i%10 == 9 {
					o.Verdict = Throttled
				}
				now = now.Add(time.Millisecond)
				c.Observe(now, o)
			}
		})
	}
}
