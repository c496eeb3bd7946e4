package rules

import "sync/atomic"

// Live holds the version of the rules in use, which may be swapped while
// requests are decided. The zero value limits no request. It is safe for
// concurrent use and must not be copied.
//
// Call Load once for each request and use its result, so that all of one
// decision is of one version.
type Live struct {
	now atomic.Pointer[Compiled]
}

// Load returns the version in use: nil, which limits no request, before the
// first Swap.
func (l *Live) Load() *Compiled { return l.now.Load() }

// Swap puts another version into use and returns the one before. Decisions that
// have begun end under the version they began with.
func (l *Live) Swap(c *Compiled) (old *Compiled) { return l.now.Swap(c) }
