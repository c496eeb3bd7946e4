package stores

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Absence logs when the Store of a Guard goes and when it is back, and not each call
// between: the first failed call, and the end of it, which the Guard reports only where
// its breaker was open. It is safe for concurrent use; the fields must not change after
// first use.
type Absence struct {
	// Log has both lines.
	Log *slog.Logger
	// Name is that of the store, and Away how requests are decided without it.
	Name, Away string
	// Guard is that of the store; its OnState is that of the Absence.
	Guard *store.Guard

	mu     sync.Mutex // guards what is below
	gone   bool       // it was said
	opened bool       // and the breaker was open
	failed bool       // a call failed since the last look
	// decided is the number of decisions of the store when it was said.
	decided int64
}

// everyLook is the time from one look at a store that is gone to the next.
const everyLook = 5 * time.Second

// OnState is that of the Guard.
func (a *Absence) OnState(err error) { a.note(err, a.Guard.Stats()) }

// note notes a failed call, or with nil that the breaker has closed. A breaker that opens
// after a call that failed alone is another absence, if the store has decided since.
func (a *Absence) note(err error, is store.GuardStats) {
	open := is.Away || is.Slow
	a.mu.Lock()
	was := a.gone
	say := err != nil && (!was || open && !a.opened && is.Decided > a.decided)
	a.gone, a.opened = err != nil, err != nil && (a.opened || open)
	a.failed = err != nil
	if say {
		a.decided = is.Decided
	}
	a.mu.Unlock()
	switch {
	case err == nil && was:
		a.back()
	case say:
		a.Log.Error("the store does not decide", "store", a.Name, "away", a.Away, "err", err)
	}
}

func (a *Absence) back() { a.Log.Info("the store is back", "store", a.Name) }

// Run asks the store every 5 seconds while it is gone, and says that it is back once it
// decides and no call has failed from one look to the next, until ctx ends.
func (a *Absence) Run(ctx context.Context) {
	tick := time.NewTicker(everyLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.look(ctx)
		}
	}
}

func (a *Absence) look(ctx context.Context) {
	a.mu.Lock()
	gone, calm := a.gone, !a.failed
	a.failed = false
	a.mu.Unlock()
	if !gone || !calm {
		return
	}
	Probe(ctx, a.Guard)
	is := a.Guard.Stats()
	a.mu.Lock()
	back := a.gone && !a.failed && !is.Away && !is.Slow && is.Decided > a.decided
	if back {
		a.gone, a.opened = false, false
	}
	a.mu.Unlock()
	if back {
		a.back()
	}
}

// Probe asks a store about a key that no request has. Nobody needs the answer: the OnState
// of a Guard says what is wrong.
func Probe(ctx context.Context, s store.Store) {
	d := make([]limit.Decision, 1)
	_, _ = s.Take(ctx, []limit.Ask{{Key: "throttle/serve", Limit: limit.Limit{Count: 1, Period: time.Second}}}, d)
}
