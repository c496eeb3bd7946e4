// Package timeline helps tests to compare when things happened.
package throttle

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// times collects when something happened, since it was made. It is safe for
// concurrent use.
type times struct {
	mu    sync.Mutex
	began time.Time
	at    map[string][]time.Duration
}

// clock returns an empty timeline that begins now.
func clock() *times {
	return &times{began: time.Now(), at: map[string][]time.Duration{}}
}

// note notes that something happens now.
func (s *times) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[what] = append(s.at[what], time.Since(s.began))
}

// of returns when something happened, in the order of the notes.
func (s *times) of(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at[what])
}

// count returns how often something happened.
func (s *times) count(what string) int { return len(s.of(what)) }

// check fails the test unless something happened at these times.
func (s *times) check(t *testing.T, what string, want ...time.Duration) {
	t.Helper()
	if got := s.of(what); !slices.Equal(got, want) {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}
