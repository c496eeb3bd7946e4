package limit

// A FirstHitWindow begins when something is taken and no window is open. So its
// edges are each caller's own, and not known beforehand to a crowd; a caller
// that waits for its own edge finds the same double amount around it.

// firstHitEnd is the end of a window that begins at now.
func firstHitEnd(now, period int64) int64 { return later(now, period) }

// firstHitLatest is the furthest end that an honest state could have: that of a
// window begun by a caller that overtook this one.
func firstHitLatest(now, period int64) int64 { return later(firstHitEnd(now, period), skew) }
