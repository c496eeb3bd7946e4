// Package timeline helps tests to compare when things happened.
package timeline

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Timeline collects when something happened, since it was made. It is safe for
// concurrent use.
type Timeline struct {
	mu    sync.Mutex
	began time.Time
	at    map[string][]time.Duration
}

// New returns an empty timeline that begins now.
func New() *Timeline {
	return &Timeline{began: time.Now(), at: map[string][]time.Duration{}}
}

// Note notes that something happens now.
func (s *Timeline) Note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[what] = append(s.at[what], time.Since(s.began))
}

// Of returns when something happened, in the order of the notes.
func (s *Timeline) Of(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at[what])
}

// Count returns how often something happened.
func (s *Timeline) Count(what string) int { return len(s.Of(what)) }

// Check fails the test unless something happened at these times.
func (s *Timeline) Check(t *testing.T, what string, want ...time.Duration) {
	t.Helper()
	if got := s.Of(what); !slices.Equal(got, want) {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}
