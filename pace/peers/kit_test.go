package peers

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

const ms = time.Millisecond

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// luckOf is the Luck of one try of one arrival.
func luckOf(seed, arrival uint64, try int) pace.Luck {
	return pace.Luck(seed<<48 + arrival<<8 + uint64(try))
}

// startAll starts n requests one after the other, each as soon as it may.
func startAll(c pace.Controller, now time.Time, n int) (at []time.Time) {
	for range n {
		r := pace.Request{Since: now}
		now = now.Add(max(c.Wait(now, r), 0))
		c.Start(now, r)
		at = append(at, now)
	}
	return at
}
