package standin

import (
	"slices"
	"time"
)

// line is a queue before servers that take work first come, first served, as
// arithmetic: it tells at once when work that arrives now begins and ends, so
// that the capacity, width / service, is exact however late timers are.
type line struct {
	free []time.Time // when each server is free, in order
}

// widen sets the number of servers. Further ones are free from now on; those
// taken away are the ones that are free last.
func (l *line) widen(now time.Time, width int) {
	for len(l.free) < width {
		l.free = slices.Insert(l.free, 0, now)
	}
	l.free = l.free[:width]
}

// begins is when work that arrives now would begin.
func (l *line) begins(now time.Time) time.Time {
	if l.free[0].After(now) {
		return l.free[0]
	}
	return now
}

// enter takes work that lasts for service, and returns when it ends.
func (l *line) enter(now time.Time, service time.Duration) (end time.Time) {
	end = l.begins(now).Add(service)
	i, _ := slices.BinarySearchFunc(l.free[1:], end, time.Time.Compare)
	copy(l.free, l.free[1:1+i])
	l.free[i] = end
	return end
}

// pause lets nobody work from now on for d: what is in work ends so much later.
func (l *line) pause(now time.Time, d time.Duration) {
	for i, t := range l.free {
		l.free[i] = later(t, now).Add(d)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
