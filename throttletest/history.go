package throttletest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// History is a store that records the calls of the Store behind it: the asks,
// the decisions, and when each call began and ended. As a store says by which
// clock it decided, the model for a checker of linearizability is exact:
//
//	state, want = limit.Take(state, answer.At, question)
//
// and an answer is right if it equals want. It is safe for concurrent use.
type History struct {
	// Store decides. It must be set.
	Store Store
	// Max bounds the operations recorded. If zero or below, a million. Beyond it
	// the Store is not called, and Take returns an error: a history with a gap
	// proves nothing.
	Max int

	mu    sync.Mutex
	began time.Time   // of the first question
	begun int         // questions, ended or not
	all   []Operation // guarded by mu
}

// Operation is one call that has returned.
type Operation struct {
	Asks      []limit.Ask
	Decisions []limit.Decision
	OK        bool
	Err       error
	// Call and Return are when the call began and when it returned: since the
	// first one began, by a clock that no step moves.
	Call, Return time.Duration
}

var (
	errHistoryFull = errors.New("throttletest: the history is full; set Max")
	errNoStore     = errors.New("throttletest: the History has no Store")
)

// Take calls the Store and records the call.
func (h *History) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if h.Store == nil {
		return false, errNoStore
	}
	began, err := h.begin()
	if err != nil {
		return false, err
	}
	o := Operation{Asks: slices.Clone(a), Call: time.Since(began)}
	o.OK, o.Err = h.Store.Take(ctx, a, d)
	o.Return = time.Since(began)
	o.Decisions = slices.Clone(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
	return o.OK, o.Err
}

// begin counts a question, and returns when the first began.
func (h *History) begin() (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	most := 1_000_000
	if h.Max > 0 {
		most = h.Max
	}
	if h.begun == most {
		return h.began, errHistoryFull
	}
	if h.begun == 0 {
		h.began = time.Now()
	}
	h.begun++
	return h.began, nil
}

// Operations returns the calls that have returned so far, in the order in which
// they did.
func (h *History) Operations() []Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}
