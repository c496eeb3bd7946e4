// Package timeline records when things happen in a test, and compares that with
// the times wanted. It is for tests in a synctest bubble, where times are
// exact.
//
//	tl := timeline.New()
//	... tl.Note("start") ...
//	tl.Check(t, "start", 0, time.Second)
package timeline

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Timeline records the times of named events, from when it was made. It is safe
// for concurrent use.
type Timeline struct {
	mu    sync.Mutex
	began time.Time
	at    map[string][]time.Duration
}

// New returns an empty Timeline that begins now.
func New() *Timeline {
	return &Timeline{began: time.Now(), at: map[string][]time.Duration{}}
}

// Note records that what happens now.
func (s *Timeline) Note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[what] = append(s.at[what], time.Since(s.began))
}

// Of returns when what happened, in the order of the notes.
func (s *Timeline) Of(what string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at[what])
}

// Count returns how often what happened.
func (s *Timeline) Count(what string) int { return len(s.Of(what)) }

// Check fails the test unless what happened at exactly the times want.
func (s *Timeline) Check(t *testing.T, what string, want ...time.Duration) {
	t.Helper()
	if got := s.Of(what); !slices.Equal(got, want) {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}
