package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// Source keeps rules fresh: it fetches them every few minutes, checks them, and
// puts them into use if they are good and have changed. Bad rules are refused
// whole, and the old ones stay. It is safe for concurrent use; its fields must
// not change after first use, and it must not be copied.
//
//	src := Source{Fetch: FromURL(nil, url), Keep: "/var/lib/app/rules.json"}
//	err := src.Refresh(ctx) // now, so that the first request is limited
//	go src.Run(ctx)         // until ctx ends
type Source struct {
	// Fetch gets the rules: FromURL, FromFile, or a function of the program.
	Fetch Fetch
	// Live is where the version in use is. Handlers use a pointer to it.
	Live Live
	// Known are the names that [Request.Value] and [Request.Cost] understand.
	Known []string
	// Keep is a file of this Source alone to keep the last good version in, for
	// the time when the program starts and the source is away. If empty, none
	// is kept.
	Keep string
	// Every is how long it is from one refreshing by Run to the next, give or
	// take a tenth, so that many processes do not come at once. As long as there
	// is no version at all, it is a tenth of that. If zero or below, 5 minutes.
	Every time.Duration
	// Timeout is how long one fetch may take. If zero or below, 10 seconds.
	Timeout time.Duration
	// OnState is told how things are after each refreshing, in the goroutine of who
	// refreshed. It must not refresh. If nil, nobody is told.
	OnState func(Status)

	mu      sync.Mutex // guards turn and status
	turn    chan struct{}
	status  Status
	current // belongs to who has the turn
}

// current is what is known of the version that the Source has put into use.
type current struct {
	digest [sha256.Size]byte
	tag    string
	kept   bool // it is in the file
}

// Origin is where the version in use came from.
type Origin string

const (
	// Fetched came from the source.
	Fetched Origin = "source"
	// Kept came from the file in which the last good one is kept.
	Kept Origin = "kept"
)

// Status is how a Source is doing.
type Status struct {
	// Version is the one in use by this Source, empty before the first.
	Version string
	// From is where it came from, empty before the first.
	From Origin
	// Since is when it was put into use, by this process.
	Since time.Time
	// Confirmed is when the source last said that it is the one: for one that
	// was Kept, when the file was written.
	Confirmed time.Time
	// Refreshes counts all tries to refresh, Failures those that ended without
	// a good version, and Swaps the versions put into use.
	Refreshes, Failures, Swaps int64
	// Err is why the last refreshing failed, in one line. Nil if it did not.
	Err error
	// KeepErr is why the version in use could not be kept in the file. It is
	// tried again with each refreshing. Nil if it is kept, or need not be.
	KeepErr error
}

// Age is how long ago the source confirmed the version in use. It grows while
// the source is away or its rules are bad. Zero if there is none.
func (s Status) Age(now time.Time) time.Duration {
	if s.Confirmed.IsZero() {
		return 0
	}
	return max(now.Sub(s.Confirmed), 0)
}

const (
	defaultEvery   = 5 * time.Minute
	defaultTimeout = 10 * time.Second
	longestEvery   = 200 * 365 * 24 * time.Hour // a tenth more is still a Duration
)

// Status is how things are.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run refreshes until ctx ends: at once if that has never been done, and then
// every few minutes. How that goes is in Status.
func (s *Source) Run(ctx context.Context) {
	wait := time.Duration(0)
	if s.Status().Refreshes > 0 {
		wait = s.pause()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		_ = s.Refresh(ctx) // it is in the Status, which On is told
		timer.Reset(s.pause())
	}
}

// pause is how long Run waits before it refreshes again.
func (s *Source) pause() time.Duration {
	every := s.Every
	if every <= 0 {
		every = defaultEvery
	}
	every = min(every, longestEvery)
	if s.Status().Version == "" {
		every /= 10
	}
	return every - every/10 + rand.N(every/5+1)
}

// Refresh fetches the rules now. The error says, in one line, why there are no
// good ones; then the old ones stay in use or, if this Source has loaded none
// yet, those in the file Keep are taken. One that does not get its turn before
// ctx ends does nothing.
func (s *Source) Refresh(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	data, tag, c, err := s.fetch(ctx)
	now := time.Now()
	status := s.Status()
	status.Refreshes++
	status.Err = nil
	switch {
	case err != nil:
		status.Failures++
		err = s.fallBack(now, &status, err)
		status.Err = err
	default:
		s.use(now, &status, c, data, tag)
	}
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	if s.OnState != nil {
		s.OnState(status)
	}
	return err
}

// enter waits until nobody else refreshes.
func (s *Source) enter(ctx context.Context) (leave func(), err error) {
	s.mu.Lock()
	if s.turn == nil {
		s.turn = make(chan struct{}, 1)
	}
	turn := s.turn
	s.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("rules: %w", context.Cause(ctx))
	}
}

// fetch gets good rules. No data means that those in use are still the ones.
func (s *Source) fetch(ctx context.Context) (data []byte, tag string, c *Compiled, err error) {
	if s.Fetch == nil {
		return nil, "", nil, errors.New("rules: the Source has no Fetch")
	}
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, tag, err = s.Fetch(ctx, s.tag)
	if err == nil && data == nil && s.tag == "" {
		err = errNothing
	}
	if err != nil {
		return nil, "", nil, lineError{fmt.Errorf("rules: %w", err)}
	}
	if data == nil {
		return nil, s.tag, nil, nil
	}
	c, err = Parse(data, s.Known...)
	return data, tag, c, err
}

// use puts c into use, or, if c is nil or the same, confirms what is in use.
func (s *Source) use(now time.Time, status *Status, c *Compiled, data []byte, tag string) {
	status.From, status.Confirmed = Fetched, now
	s.tag = tag
	if c != nil && c.digest != s.digest { // the digest of no Set is zero
		s.swap(now, status, c)
		s.kept = false
	}
	if s.Keep == "" || s.kept || data == nil {
		return
	}
	err := writeKept(s.Keep, data)
	s.kept = err == nil
	status.KeepErr = nil
	if err != nil {
		s.tag = "" // to get the text again and try again
		status.KeepErr = lineError{fmt.Errorf("rules: %w", err)}
	}
}

func (s *Source) swap(now time.Time, status *Status, c *Compiled) {
	s.Live.Swap(c)
	s.digest = c.digest
	status.Version, status.Since = c.version, now
	status.Swaps++
}

// fallBack takes the kept version if there is none in use. It returns why the
// source failed, and why the file did if it was needed.
func (s *Source) fallBack(now time.Time, status *Status, why error) error {
	if s.Keep == "" || status.Swaps > 0 {
		return why
	}
	data, err := readFile(s.Keep)
	var c *Compiled
	if err == nil {
		c, err = Parse(data, s.Known...)
	}
	if err != nil {
		return lineError{fmt.Errorf("%w; and the kept %s: %w", why, s.Keep, err)}
	}
	s.swap(now, status, c)
	s.kept = true
	status.From, status.Confirmed = Kept, now
	if info, err := os.Stat(s.Keep); err == nil {
		status.Confirmed = info.ModTime()
	}
	return why
}

// lineError is an error in one line.
type lineError struct{ error }

func (e lineError) Error() string { return oneLine(e.error.Error()) }
func (e lineError) Unwrap() error { return e.error }
