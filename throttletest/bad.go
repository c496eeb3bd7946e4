package throttletest

import (
	"context"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// patience is how long a question with an ended context may take.
var patience = 10 * time.Second

// ended asks with contexts that have ended. A store may decide or return an
// error, but it must do so soon.
func (s suite) ended(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, ctx := range map[string]context.Context{"canceled": canceled, "late": late} {
		ask := limit.Ask{Key: s.key("ended " + name), Limit: limit.Limit{Count: 10, Period: day}, N: 1}
		type answer struct {
			d   limit.Decision
			ok  bool
			err error
		}
		back := make(chan answer, 1)
		go func() {
			d := []limit.Decision{garbage}
			ok, err := s.store.Take(ctx, []limit.Ask{ask}, d)
			back <- answer{d[0], ok, err}
		}()
		select {
		case r := <-back:
			ask.N = 0
			left := s.take(t, ask).Remaining
			if r.err == nil && (!r.ok || !r.d.OK || left != 9) || left < 9 {
				t.Errorf("Take with a context that is %s = %v, %+v, %v, and %d of 10 remain; want OK and 9, or an error", name, r.ok, r.d, r.err, left)
			}
		case <-time.After(patience):
			t.Errorf("Take with a context that is %s is not back after %v", name, patience)
		}
	}
}

// bad asks what no store may answer, and nothing at all, which passes.
func (s suite) bad(t *testing.T) {
	l := limit.Limit{Count: 10, Period: day}
	a := []limit.Ask{
		{Key: s.together("twice"), Limit: l, N: 1},
		{Key: s.together("once"), Limit: l, N: 1},
		{Key: s.together("twice"), Limit: l, N: 1},
	}
	if ok, err := s.store.Take(t.Context(), a, make([]limit.Decision, 3)); err == nil {
		t.Errorf("Take with the first and the third key alike = %v, want an error", ok)
	}
	for _, n := range []int{0, 1, 3} {
		if ok, err := s.store.Take(t.Context(), a[:2], make([]limit.Decision, n)); err == nil {
			t.Errorf("Take of 2 asks with %d decisions = %v, want an error", n, ok)
		}
	}
	for _, ask := range a[:2] {
		ask.N = 0
		if d := s.take(t, ask); d.Remaining != 10 {
			t.Errorf("after questions that were refused, %q has %d remaining, want 10", ask.Key, d.Remaining)
		}
	}
	if ok, err := s.store.Take(t.Context(), nil, nil); !ok || err != nil {
		t.Errorf("Take of nothing = %v, %v, want true", ok, err)
	}
}
