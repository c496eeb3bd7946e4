// Package autosleeper sleeps after calls, for programs that use Sakthi Priyan's
// go-utils AutoSleeper and want to keep their loops.
//
//	var s autosleeper.Sleeper
//
//	for ctx.Err() == nil { // when it has ended, no sleep holds back a call
//		if err := call(); err != nil {
//			s.SleepOnFailure(ctx)
//			continue
//		}
//		s.SleepOnSuccess(ctx)
//	}
//
// New code is better served by throttle.Throttle, which paces and retries by
// itself. The arithmetic is that of [peers.AutoSleeper], which the simulator
// runs too.
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
// longer after failures, shorter after a row of successes. It differs from the
// original in two ways: it is safe for concurrent use, and a sleep ends with
// its context.
//
// The zero value is ready. It must not be copied, nor its Settings changed,
// after first use.
type Sleeper struct {
	// Settings are the settings of the original. Zero fields have its defaults,
	// without randomness; for all its defaults use
	// *[peers.DefaultAutoSleeper]().
	Settings peers.AutoSleeper

	mu sync.Mutex // guards Settings, which hold the state as well
}

// SleepOnFailure records that a call was refused or failed, and sleeps. The
// error is that of ctx, if it ended first.
func (s *Sleeper) SleepOnFailure(ctx context.Context) error {
	s.mu.Lock()
	d := s.Settings.Failure(pace.Luck(rand.Uint64()))
	s.mu.Unlock()
	return sleep(ctx, d)
}

// SleepOnSuccess records that a call succeeded, and sleeps if calls have failed
// lately. The error is that of ctx, if it ended first.
func (s *Sleeper) SleepOnSuccess(ctx context.Context) error {
	s.mu.Lock()
	d := s.Settings.Success(pace.Luck(rand.Uint64()))
	s.mu.Unlock()
	return sleep(ctx, d)
}

// Stats returns the counts so far. A sleep counts in full when it begins.
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
