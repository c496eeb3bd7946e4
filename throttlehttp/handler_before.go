package throttlehttp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// patience bounds a refund, as the context of the request may have ended.
const patience = 5 * time.Second

// Refund refunds what Handlers of the Phase rules.Before charged for r, and
// no longer counts r as in flight there: for a caller that was limited by
// address and then authenticated. Further calls do nothing. A Handler behind
// the authentication calls it for requests with a Client; call it yourself
// where there is no such Handler. The error is that of the Store. It is safe
// for concurrent use.
func Refund(r *http.Request) error {
	t, _ := r.Context().Value(takenKey{}).(*taken)
	var err error
	for ; t != nil; t = t.before {
		if t.given.Swap(true) {
			continue
		}
		t.hold.Release()
		err = errors.Join(err, t.giveBack(r.Context()))
	}
	return err
}

// takenKey is the context key of a *taken.
type takenKey struct{}

// taken is what a Handler charged for a request.
type taken struct {
	store  store.Store
	asks   []limit.Ask // each a refund
	hold   rules.Hold
	before *taken // by a Handler further out
	given  atomic.Bool
}

// taken returns what the visit charged.
func (v *visit) taken() *taken {
	t := &taken{store: v.h.store(), hold: v.hold}
	for i, a := range v.asks {
		if v.answers[i].N > 0 {
			a.N = -v.answers[i].N
			t.asks = append(t.asks, a)
		}
	}
	for _, a := range v.shadows {
		if a.N > 0 {
			a.N = -a.N
			t.asks = append(t.asks, a)
		}
	}
	return t
}

// remember returns the request with what the visit charged in its context.
func (v *visit) remember() *http.Request {
	t := v.taken()
	ctx := v.r.Context()
	t.before, _ = ctx.Value(takenKey{}).(*taken)
	return v.r.WithContext(context.WithValue(ctx, takenKey{}, t))
}

// giveBack refunds it to the Store, even if ctx has ended.
func (t *taken) giveBack(ctx context.Context) error {
	if len(t.asks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := t.store.Take(ctx, t.asks, make([]limit.Decision, len(t.asks)))
	return err
}
