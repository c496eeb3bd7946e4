package throttleenvoy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// TestSeveral: each descriptor is decided, and none is charged if one is refused.
func TestSeveral(t *testing.T) {
	s := serviceOf(t, userRules)
	for range 3 {
		ask(t, s, about(descriptor("user=jane")))
	}
	for range 20 { // neither what stands before nor what stands behind is charged
		out := ask(t, s, about(descriptor("generic_key=all"), descriptor("user=jane"), descriptor("other=x"), descriptor("user=john")))
		if codesOf(out) != "x:oxoo" || out.GetStatuses()[0].GetLimitRemaining() != 5 || out.GetStatuses()[3].GetLimitRemaining() != 3 {
			t.Fatalf("one of four over: %s, %v", codesOf(out), out)
		}
		if out.GetStatuses()[2].GetCurrentLimit() != nil || !strings.Contains(fieldsOf(out), `"user";r=0`) {
			t.Fatalf("one of four over: %v", out)
		}
	}
	out := ask(t, s, about(descriptor("generic_key=all"), descriptor("user=john"), descriptor("user=john")))
	if codesOf(out) != "o:ooo" || out.GetStatuses()[0].GetLimitRemaining() != 4 || out.GetStatuses()[2].GetLimitRemaining() != 1 {
		t.Errorf("all within: %v", out)
	}
	if got := fieldsOf(out); !strings.HasPrefix(got, `ratelimit-policy: "user"`) {
		t.Errorf("fields %s, want those of the limit with the least part left", got)
	}
}

// TestRefundOfDebt: a charge into debt of more than can be owed is refunded as far as it
// was charged, so that what was owed before is still owed.
func TestRefundOfDebt(t *testing.T) {
	s := serviceOf(t, `{"rules": [{"name": "bytes", "match": {"descriptor": "bytes"}, "debt": true, "limits": "100/h"},
		{"name": "tried", "match": {"descriptor": "bytes"}, "shadow": true, "debt": true, "limits": "100/h"},
		{"name": "none", "match": {"descriptor": "none"}, "limits": "0/s"}]}`)
	kept := new(memory.Store)
	s.Control.Store = kept
	ask(t, s, about(hits(150, descriptor("bytes=x"))))
	for _, n := range []uint64{1000, 60, 50, 1} {
		out := ask(t, s, about(hits(n, descriptor("bytes=x")), descriptor("none=x")))
		if codesOf(out) != "x:ox" || out.GetStatuses()[0].GetLimitRemaining() != 0 {
			t.Errorf("%d into debt, and one over: %v, want that nothing is left", n, out)
		}
		if out = ask(t, s, about(hits(0, descriptor("bytes=x")))); codesOf(out) != "x:x" {
			t.Errorf("of 150, after %d were charged and refunded: %v, want 50 owed", n, out)
		}
		if d, err := store.Take(t.Context(), kept, "tried/0", limit.Limit{Count: 100, Period: time.Hour}, 0); err != nil || d.OK {
			t.Errorf("of the shadow rule, after %d were charged and refunded: %+v, %v, want 50 owed", n, d, err)
		}
	}
}

// oneByOne is a Store that decides about one key at a time, as one in several slots does,
// but for limits that remember nothing.
func oneByOne(of store.Store) store.Store {
	return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if len(a) > 1 && a[1].Limit.Count > 0 {
			return false, limit.ErrAsks
		}
		return of.Take(ctx, a, d)
	})
}

// TestOneCall: all descriptors of a request cost one call of the Store.
func TestOneCall(t *testing.T) {
	s, kept := serviceOf(t, userRules), new(memory.Store)
	var calls []int
	s.Control.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		calls = append(calls, len(a))
		return kept.Take(ctx, a, d)
	})
	out := ask(t, s, about(descriptor("generic_key=all"), descriptor("user=a"), descriptor("user=b"), descriptor("free=x")))
	if codesOf(out) != "o:oooo" || len(calls) != 1 || calls[0] != 3 {
		t.Errorf("four descriptors: %v in calls about %v keys, want one about 3", out, calls)
	}
}

// TestLooksBehind: behind a refusal nothing is charged, not even for a moment, and what
// would not fit is told: also by a Store that decides about one key at a time.
func TestLooksBehind(t *testing.T) {
	s, kept := serviceOf(t, userRules), new(memory.Store)
	charged := 0
	s.Control.Store = oneByOne(store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := kept.Take(ctx, a, d)
		if ok && a[0].N > 0 && strings.HasPrefix(a[0].Key, "all") {
			charged++
		}
		return ok, err
	}))
	for range 3 {
		ask(t, s, about(descriptor("user=jane")))
	}
	out := ask(t, s, about(descriptor("user=jane"), hits(5, descriptor("generic_key=all")), hits(6, descriptor("generic_key=all"))))
	if codesOf(out) != "x:xox" || charged != 0 || out.GetStatuses()[1].GetLimitRemaining() != 5 {
		t.Errorf("behind a refusal: %d charged, %v", charged, out)
	}
}

// failing is a Store that fails about one key, and decides about one at a time.
func failing(of store.Store, part string, err error) store.Store {
	return oneByOne(store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if strings.HasPrefix(a[0].Key, part) && a[0].N > 0 {
			if err == nil {
				<-ctx.Done()
				return false, ctx.Err()
			}
			return false, err
		}
		return of.Take(ctx, a, d)
	}))
}

// TestStoreFails: the error is UNAVAILABLE without the cause, at the deadline
// DEADLINE_EXCEEDED, and what was charged before is refunded.
func TestStoreFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, kept := serviceOf(t, userRules), new(memory.Store)
		in := about(descriptor("generic_key=all"), descriptor("user=jane"))
		s.Control.Store = failing(kept, "user", errors.New("secret cause"))
		_, err := s.ShouldRateLimit(t.Context(), in)
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
			t.Errorf("a failing Store: %v, want UNAVAILABLE", err)
		}
		hangs := serviceOf(t, userRules)
		hangs.Control.Store = failing(kept, "user", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err = hangs.ShouldRateLimit(ctx, in); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a Store that hangs: %v, want DEADLINE_EXCEEDED", err)
		}
		synctest.Wait() // for the refund, which the deadline did not wait for
		if out := ask(t, s, about(descriptor("generic_key=all"))); out.GetStatuses()[0].GetLimitRemaining() != 4 {
			t.Errorf("what stood before stays charged: %v", out)
		}
		open := serviceOf(t, userRules)
		open.Control.Store = store.FailOpen(failing(kept, "user", errors.New("away")))
		if out := ask(t, open, in); codesOf(out) != "o:oo" {
			t.Errorf("FailOpen: %v", out)
		}
	})
}

// TestRefundHangs: a refund that hangs holds up nobody beyond the deadline.
func TestRefundHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, kept := serviceOf(t, userRules), new(memory.Store)
		s.Control.Store = oneByOne(store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			if a[0].N < 0 {
				<-ctx.Done()
				return false, ctx.Err()
			}
			return kept.Take(ctx, a, d)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		in := about(descriptor("generic_key=all"), descriptor("user=a"), hits(9, descriptor("user=b")))
		if _, err := s.ShouldRateLimit(ctx, in); status.Code(err) != codes.DeadlineExceeded || time.Since(began) != 20*time.Millisecond {
			t.Errorf("after %v: %v, want DEADLINE_EXCEEDED after 20ms", time.Since(began), err)
		}
		out, err := s.ShouldRateLimit(t.Context(), in)
		if err != nil || codesOf(out) != "x:oox" || time.Since(began) != 5020*time.Millisecond {
			t.Errorf("without a deadline, after %v: %v, %v; want one refund tried, for 5 s", time.Since(began), out, err)
		}
	})
}
