package stores

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Absence logs when the Store of a Guard goes and when it is back, and not each call
// between: the first failed call, later ones that say more of the cause, see tells,
// and the end of it, which the Guard reports only where its breaker was open. It is safe
// for concurrent use; the fields must not change after first use.
type Absence struct {
	// Log has both lines.
	Log *slog.Logger
	// Name is that of the store, and Away how requests are decided without it.
	Name, Away string
	// Guard is that of the store; its OnState is that of the Absence.
	Guard *store.Guard
	// Finder is the store itself: Run logs what it finds, once. If nil, nothing is asked.
	Finder Finder

	mu     sync.Mutex // guards what is below
	gone   bool       // it was said
	opened bool       // and the breaker was open
	told   int        // how much of the cause was said, as tells counts
	failed time.Time  // the last failed call
	looked time.Time
	ended  time.Time // it was last said to be back
	// calm is the time without a failed call that ends this absence.
	calm time.Duration
	// decided is the number of decisions of the store when it was said.
	decided int64
	lines   []func() // to log, in their order
	writing bool     // a goroutine does

	// For Run alone.
	found    bool  // the Finder has answered
	replaced int64 // servers of Redis when it did
}

const (
	// everyLook is the time from one look at a store that is gone to the next, and the
	// calm that ends the first absence.
	everyLook = 5 * time.Second
	// longestCalm bounds the calm, which doubles with each absence, so that a store that
	// fails now and then does not fill the log.
	longestCalm = 5 * time.Minute
	// longCalm is after how long without an absence the next one counts as the first.
	longCalm = 2 * longestCalm
	// maxLines bounds the lines that wait for a log that blocks; those beyond are left out.
	maxLines = 64
)

// OnState is that of the Guard.
func (a *Absence) OnState(err error) { a.note(err, a.Guard.Stats(), time.Now()) }

// note notes a failed call, or with nil that the breaker has closed, which ends a first
// absence at once. A breaker that opens after a call that failed alone is another absence,
// if the store has decided since.
func (a *Absence) note(err error, is store.GuardStats, now time.Time) {
	open := is.Away || is.Slow
	a.mu.Lock()
	switch {
	case err == nil && a.gone && a.calm <= everyLook:
		a.back(now)
	case err != nil:
		if !a.gone {
			a.begin(now)
		}
		tells := tells(err)
		if !a.gone || open && !a.opened && is.Decided > a.decided || tells > a.told {
			a.decided, a.told = is.Decided, tells
			a.say(func() {
				a.Log.Error("the store does not decide", "store", a.Name, "away", a.Away, "err", err)
			})
		}
		a.gone, a.opened, a.failed = true, a.opened || open, now
	}
	a.mu.Unlock()
	a.write()
}

// tells returns how much of the cause an error tells: that a call had no answer in time; that its
// connection ended; that none can be made; what the server says. A store that refuses each
// call, as its password has changed, may be late at first, or end its connections.
func tells(err error) int {
	var of interface{ SQLState() string }
	states := errors.As(err, &of)
	lost := func(by error) bool { return errors.Is(err, by) }
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrSlow):
		return 0
	case states && strings.HasPrefix(of.SQLState(), "57P0"), // PostgreSQL ends, or begins
		!states && slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE}, lost):
		return 1
	case !states && errors.As(err, new(net.Error)):
		return 2
	}
	return 3
}

// begin sets the calm of an absence that begins. The lock is held.
func (a *Absence) begin(now time.Time) {
	if a.ended.IsZero() || now.Sub(a.ended) >= longCalm {
		a.calm = everyLook
		return
	}
	a.calm = min(2*a.calm, longestCalm)
}

// back ends an absence. The lock is held.
func (a *Absence) back(now time.Time) {
	a.gone, a.opened, a.ended = false, false, now
	a.say(func() { a.Log.Info("the store is back", "store", a.Name) })
}

// say adds a line. The lock is held.
func (a *Absence) say(line func()) {
	if len(a.lines) < maxLines {
		a.lines = append(a.lines, line)
	}
}

// write logs the lines in their order, without the lock. While one goroutine does, the
// others leave theirs to it.
func (a *Absence) write() {
	a.mu.Lock()
	if a.writing {
		a.mu.Unlock()
		return
	}
	for len(a.lines) > 0 {
		line := a.lines[0]
		a.lines, a.writing = a.lines[1:], true
		a.mu.Unlock()
		line()
		a.mu.Lock()
	}
	a.writing = false
	a.mu.Unlock()
}

// Run logs what the Finder finds, asks the store every 5 seconds while it is gone, and says that it is back once it
// decides and no call has failed for 5 seconds, until ctx ends. With each absence this
// time doubles, up to 5 minutes; after 10 minutes without one it is 5 seconds again.
func (a *Absence) Run(ctx context.Context) {
	tick := time.NewTicker(everyLook)
	defer tick.Stop()
	for {
		a.find(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.look(ctx)
		}
	}
}

func (a *Absence) look(ctx context.Context) {
	now := time.Now()
	a.mu.Lock()
	ask := a.gone && a.failed.Before(a.looked) // calls that fail say enough
	a.looked = now
	a.mu.Unlock()
	if ask {
		Probe(ctx, a.Guard)
		a.settle(a.Guard.Stats(), time.Now())
	}
}

// settle ends an absence if the store decides and was calm for long enough.
func (a *Absence) settle(is store.GuardStats, now time.Time) {
	a.mu.Lock()
	if a.gone && now.Sub(a.failed) >= a.calm && !is.Away && !is.Slow && is.Decided > a.decided {
		a.back(now)
	}
	a.mu.Unlock()
	a.write()
}

// Probe asks a store about a key that no request has. Nobody needs the answer: the OnState
// of a Guard says what is wrong.
func Probe(ctx context.Context, s store.Store) {
	d := make([]limit.Decision, 1)
	_, _ = s.Take(ctx, []limit.Ask{{Key: "throttle/serve", Limit: limit.Limit{Count: 1, Period: time.Second}}}, d)
}
