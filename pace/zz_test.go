package pace

import (
	"fmt"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	a := &Adaptive{Blind: true}
	var luck uint64
	now := time.Unix(0, 0)
	C, b := 1.783, 15.0
	lvl, at := b, now
	for i := 0; i < 3000; i++ {
		since := now
		for {
			w := a.Wait(now, Request{Since: since})
			if w <= 0 {
				break
			}
			now = now.Add(w)
		}
		luck++
		rq := Request{Since: since, Cost: 1, Luck: luckOf(1, luck, 0)}
		a.Start(now, rq)
		sent := now
		now = now.Add(15 * time.Millisecond)
		lvl = min(b, lvl+C*now.Sub(at).Seconds())
		at = now
		v := Throttled
		if lvl >= 1 {
			lvl--
			v = Served
		}
		now = now.Add(15 * time.Millisecond)
		x, n, live, ref := a.rate(now.Sub(a.base).Seconds()), a.accepted, a.liveAt, a.refused
		a.Observe(now, Outcome{Request: rq, Sent: sent, Report: Report{Verdict: v}})
		if v == Throttled {
			fmt.Printf("%8.2f ref %d rate %.3f n %.0f live %.2f dead %.2f,%.2f -> floor %.3f trust %.1f T %.1f\n", now.Sub(a.base).Seconds(), ref, x, n, sent.Sub(a.base).Seconds()-live, a.dead, a.deadBefore, a.floor, a.trust, a.period)
		}
	}
}
