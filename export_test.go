package throttle

// ScopesOf is how many tickets wait for, or are in flight in, scopes of t, and
// how many of these are remembered.
func ScopesOf(t *Throttle) (waiting, flying, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.scopes.byName {
		waiting += s.of.Waiting()
		flying += s.of.InFlight()
	}
	return waiting, flying, len(t.scopes.byName)
}
