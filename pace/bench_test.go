package pace

import (
	"testing"
	"time"
)

// BenchmarkAdaptive is what one request costs: Wait, Start and Observe, of a
// client that one in 50 of its requests is refused, without hints and with them.
func BenchmarkAdaptive(b *testing.B) {
	for _, c := range []struct {
		name     string
		informed bool
	}{{"blind", false}, {"informed", true}} {
		b.Run(c.name, func(b *testing.B) {
			a, now, n := new(Adaptive), time.Unix(0, 0), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				r := Request{Since: now, Luck: Luck(n), Cost: 1}
				now = now.Add(max(a.Wait(now, r), 0))
				a.Start(now, r)
				sent := now
				now = now.Add(10 * time.Millisecond)
				o := Outcome{Request: r, Sent: sent, Report: Report{Verdict: Served}}
				if n%50 == 0 {
					o.Verdict = Throttled
				}
				if c.informed {
					o.Hints.Remaining = Some(20 + n%30)
				}
				a.Observe(now, o)
			}
		})
	}
}
