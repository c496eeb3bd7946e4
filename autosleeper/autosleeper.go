package autosleeper

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// Sleeper sleeps after each call for as long as [peers.AutoSleeper] says:
// longer after failures, shorter after a row of successes. It is for loops
// written for Sakthi Priyan's go-utils AutoSleeper, with two differences: it
// is safe for concurrent use, and a sleep ends with its context. New code is
// better served by a [throttle.Throttle].
//
// The zero value is ready. It must not be copied, nor its settings changed,
// after first use.
type Sleeper struct {
	// Settings are those of the original. Zero ones are its defaults, but that
	// nothing is random; all its defaults are *[peers.DefaultAutoSleeper]().
	Settings peers.AutoSleeper

	mu sync.Mutex // guards Settings, which hold the state as well
}

// SleepOnFailure notes that a call was refused or failed, and sleeps. The error
// is that of ctx, if it ended first.
func (s *Sleeper) SleepOnFailure(ctx context.Context) error {
	s.mu.Lock()
	d := s.Settings.Failure(pace.Luck(rand.Uint64()))
	s.mu.Unlock()
	return sleep(ctx, d)
}

// SleepOnSuccess notes that a call succeeded, and sleeps, if there have been
// failures lately. The error is that of ctx, if it ended first.
func (s *Sleeper) SleepOnSuccess(ctx context.Context) error {
	s.mu.Lock()
	d := s.Settings.Success(pace.Luck(rand.Uint64()))
	s.mu.Unlock()
	return sleep(ctx, d)
}

// Stats are the counts so far. A sleep counts in full when it begins.
func (s *Sleeper) Stats() peers.AutoSleeperStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Settings.Stats()
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
