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

// patience is how long giving back may take: the request may have ended.
const patience = 5 * time.Second

// GiveBack hands back what Handlers of the Phase rules.Before took for r, and
// counts it as no longer under way: for a caller that they limited by its address
// and who has turned out to be known. It does so once, however often it is called.
// A Handler behind the authentication calls it for whoever is known by its
// Client; call it where there is none. The error is that of the Store. It is safe
// for concurrent use.
func GiveBack(r *http.Request) error {
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

// takenKey is the key of a *taken in a context.
type takenKey struct{}

// taken is what a Handler took for a request.
type taken struct {
	store  store.Store
	asks   []limit.Ask // each to be asked to give back
	hold   rules.Hold
	before *taken // by a Handler further out
	given  atomic.Bool
}

// taken is what the visit took.
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

// remember is the request with what the visit took in its context.
func (v *visit) remember() *http.Request {
	t := v.taken()
	ctx := v.r.Context()
	t.before, _ = ctx.Value(takenKey{}).(*taken)
	return v.r.WithContext(context.WithValue(ctx, takenKey{}, t))
}

// giveBack asks the Store to take it back. The end of ctx does not hinder it.
func (t *taken) giveBack(ctx context.Context) error {
	if len(t.asks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := t.store.Take(ctx, t.asks, make([]limit.Decision, len(t.asks)))
	return err
}
