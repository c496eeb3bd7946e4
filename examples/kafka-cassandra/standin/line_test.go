package standin

import (
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1000, 0)
	var l line
	for i, c := range []struct {
		at, service time.Duration
		width       int
		pause       time.Duration // before
		begin, end  time.Duration
	}{
		{at: 0, service: 10 * ms, width: 2, begin: 0, end: 10 * ms},
		{at: 0, service: 20 * ms, width: 2, begin: 0, end: 20 * ms},
		{at: 5 * ms, service: 5 * ms, width: 2, begin: 10 * ms, end: 15 * ms},
		{at: 5 * ms, service: 10 * ms, width: 2, begin: 15 * ms, end: 25 * ms},
		{at: 5 * ms, service: 1 * ms, width: 3, begin: 5 * ms, end: 6 * ms},
		{at: 100 * ms, service: 1 * ms, width: 1, begin: 100 * ms, end: 101 * ms},
		{at: 100 * ms, service: 1 * ms, width: 1, begin: 101 * ms, end: 102 * ms},
		{at: 101 * ms, service: 1 * ms, width: 1, pause: 50 * ms, begin: 152 * ms, end: 153 * ms},
		{at: 300 * ms, service: 1 * ms, width: 1, pause: 50 * ms, begin: 350 * ms, end: 351 * ms},
	} {
		now := start.Add(c.at)
		l.widen(now, c.width)
		if c.pause > 0 {
			l.pause(now, c.pause)
		}
		begin, end := l.begins(now).Sub(start), l.enter(now, c.service).Sub(start)
		if begin != c.begin || end != c.end {
			t.Errorf("%d: at %v with %d servers: begins at %v and ends at %v, want %v and %v", i, c.at, c.width, begin, end, c.begin, c.end)
		}
	}
}

// TestLineCapacity: however many wait, width / service is what leaves.
func TestLineCapacity(t *testing.T) {
	start := time.Unix(1000, 0)
	var l line
	l.widen(start, 16)
	var end time.Time
	for range 16_000 {
		end = l.enter(start, 2*time.Millisecond)
	}
	if took := end.Sub(start); took != 2*time.Second {
		t.Errorf("16,000 writes of 2 ms by 16 servers took %v, want 2 s", took)
	}
}
