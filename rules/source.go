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

// Source refreshes rules: it fetches them every few minutes, checks them, and
// puts them into use if they are valid and have changed. Invalid rules are
// refused as a whole, and the old ones stay. It is safe for concurrent use; it
// must not be copied, nor its fields changed, after first use.
//
//	src := rules.Source{Fetch: rules.FromURL(nil, url), Keep: "rules.json"}
//	err := src.Refresh(ctx) // now, so that the first request is limited
//	go src.Run(ctx)         // until ctx ends
type Source struct {
	// Fetch returns the rules: FromURL, FromFile, or a function of the program.
	// If nil, each refresh is an error.
	Fetch Fetch
	// Live holds the version in use. Handlers use a pointer to it.
	Live Live
	// Read reads the text as a tree, for files in another format than JSON. It
	// should refuse text longer than [MaxSize]. If nil, [ReadNode].
	Read func(data []byte) (Node, error)
	// Known are the names that [Request.Value] and [Request.Cost] understand. Rules
	// that use another name are refused. If empty, they understand none.
	Known []string
	// Keep is a file, of this Source alone, with the last good version, for a
	// start of the program while the source is unreachable. If empty, none is
	// kept.
	Keep string
	// Every is the time from one refresh by Run to the next, varied by a tenth
	// so that many processes do not refresh at once. While there is no version
	// at all, it is a tenth of that. If zero or below, 5 minutes.
	Every time.Duration
	// Timeout bounds one fetch. If zero or below, 10 seconds.
	Timeout time.Duration
	// OnState is called with the Status after each refresh, in the goroutine
	// that refreshed. It must not refresh. If nil, nothing is called.
	OnState func(Status)

	into    func(c *Compiled) error // of the Stack: puts a version into use, or says why not
	mu      sync.Mutex              // guards turn and status
	turn    chan struct{}
	status  Status
	current // of the refresh that has the turn
}

// current is what is known of the version that the Source has put into use.
type current struct {
	serial int64
	digest [sha256.Size]byte
	tag    string
	kept   bool // it is in the file
}

// Origin says where the version in use came from.
type Origin string

const (
	// Fetched came from the source.
	Fetched Origin = "source"
	// Kept came from the file with the last good version.
	Kept Origin = "kept"
)

// Status describes the version in use by a Source, and its last refresh.
type Status struct {
	// Version is the version in use by this Source, empty before the first.
	Version string
	// From is where it came from, empty before the first.
	From Origin
	// Since is when this process put it into use.
	Since time.Time
	// Confirmed is when the source last said that it is current: for one that
	// was Kept, when the file was written.
	Confirmed time.Time
	// Refreshes counts all refreshes, Failures those that ended without a good
	// version, and Swaps the versions put into use.
	Refreshes, Failures, Swaps int64
	// Err says why the last refresh failed, in one line. Nil if it did not.
	Err error
	// KeepErr says why the version in use could not be written to the file. Each
	// refresh retries it. Nil if it is written, or need not be.
	KeepErr error
}

// Age returns how long ago the source confirmed the version in use. It grows
// while the source is unreachable or its rules are invalid. Zero if there is
// none.
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

// Status returns the current status.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run refreshes until ctx ends: at once if no refresh was done yet, and then
// every few minutes. Status has the results.
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
		_ = s.Refresh(ctx) // it is in the Status, which OnState is called with
		timer.Reset(s.pause())
	}
}

// pause returns how long Run waits before the next refresh.
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
// yet, those in the file Keep are used. Refreshes take turns; one whose ctx
// ends before its turn does nothing.
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

// enter waits until no other refresh is in flight.
func (s *Source) enter(ctx context.Context) (leave func(), err error) {
	s.mu.Lock()
	if s.turn == nil {
		s.turn = make(chan struct{}, 1)
	}
	turn := s.turn
	s.mu.Unlock()
	return takeTurn(ctx, turn)
}

// takeTurn waits for a turn. One that is free is taken even if ctx has ended: what
// fails then is noted, and a kept copy is used.
func takeTurn(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	leave = func() { <-turn }
	select {
	case turn <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case turn <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("rules: %w", context.Cause(ctx))
	}
}

// fetch returns good rules. No data means that those in use are current.
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
	c, err = s.parse(data)
	if err == nil && c.serial > 0 {
		err = s.older(c.serial)
	}
	if err == nil && c.digest != s.digest && s.into != nil {
		err = s.into(c)
	}
	return data, tag, c, err
}

// older refuses a serial below that of the version in use, or, before the first, of
// the kept one.
func (s *Source) older(serial int64) error {
	have, where := s.serial, "in use"
	if s.Keep != "" && s.digest == [sha256.Size]byte{} {
		data, err := readFile(s.Keep)
		if err != nil {
			return nil // none is kept
		}
		if kept, err := s.parse(data); err == nil {
			have, where = kept.serial, "kept"
		}
	}
	if serial < have {
		return fmt.Errorf("rules: serial %d is older than %d, which is %s", serial, have, where)
	}
	return nil
}

// parse reads and checks rules.
func (s *Source) parse(data []byte) (*Compiled, error) {
	read := s.Read
	if read == nil {
		read = ReadNode
	}
	root, err := read(data)
	if err != nil {
		return nil, lineError{err}
	}
	return ParseNode(root, s.Known...)
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
	s.digest, s.serial = c.digest, max(c.serial, s.serial)
	status.Version, status.Since = c.version, now
	status.Swaps++
}

// fallBack uses the kept version if there is none in use. It returns why the
// source failed, and why the file did if it was needed.
func (s *Source) fallBack(now time.Time, status *Status, why error) error {
	if s.Keep == "" || status.Swaps > 0 {
		return why
	}
	data, err := readFile(s.Keep)
	var c *Compiled
	if err == nil {
		c, err = s.parse(data)
	}
	if err == nil && s.into != nil {
		err = s.into(c)
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
