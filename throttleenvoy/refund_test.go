package throttleenvoy_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// back makes the hits of a descriptor negative.
func back(d *descriptorpb.RateLimitDescriptor) *descriptorpb.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

// TestNegativeHits: where refunds are allowed, negative hits are given back, as far as they
// were used, and only if the other descriptors pass.
func TestNegativeHits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for name, s := range map[string]*throttleenvoy.Service{
			"rules": serviceOf(t, `{"rules": [{"name": "a", "match": {"descriptor": "a"}, "limits": "10/h fixed-window"}, {"name": "none", "match": {"descriptor": "none"}, "limits": "0/s"}]}`),
			"limit": {Control: &admit.Control{Spread: -1, LimitFor: func(q admit.Request) limit.Limit {
				if q.Descriptor[0].Key == "none" {
					return limit.Limit{Period: limit.Week}
				}
				return limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: limit.Week}
			}}},
		} {
			s.Refunds = true
			a := func() *descriptorpb.RateLimitDescriptor { return descriptor("a=1") }
			left := func() uint32 { return ask(t, s, about(hits(0, a()))).GetStatuses()[0].GetLimitRemaining() }
			ask(t, s, about(hits(7, a())))
			out := ask(t, s, about(back(hits(5, a())), descriptor("b=1")))
			if codesOf(out) != "o:oo" || out.GetStatuses()[0].GetCurrentLimit() != nil || left() != 8 {
				t.Errorf("%s: 5 of 7 given back: %v, %d left, want 8", name, out, left())
			}
			if out := ask(t, s, about(descriptor("none=1"), back(hits(1, a())), a())); codesOf(out) != "x:xoo" || left() != 8 {
				t.Errorf("%s: in a request that is refused: %v, %d left, want 8", name, out, left())
			}
			if out := ask(t, s, about(back(hits(100, a())))); codesOf(out) != "o:o" || left() != 10 {
				t.Errorf("%s: more than was used: %v, %d left, want 10", name, out, left())
			}
		}
	})
}

// TestNegativeHitsFail: a refund that fails is an error, and what the other descriptors were
// charged is given back.
func TestNegativeHitsFail(t *testing.T) {
	s, kept := serviceOf(t, userRules), new(memory.Store)
	s.Refunds, s.Control.Store = true, kept
	ask(t, s, about(descriptor("user=jane")))
	s.Control.Store = broken{kept}
	out, err := s.ShouldRateLimit(t.Context(), about(descriptor("generic_key=all"), back(descriptor("user=jane"))))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a refund that fails: %v, %v, want UNAVAILABLE", out, err)
	}
	s.Control.Store = kept
	if left := ask(t, s, about(hits(0, descriptor("generic_key=all")))).GetStatuses()[0].GetLimitRemaining(); left != 5 {
		t.Errorf("%d are left of what was charged beside it, want 5", left)
	}
}

// broken is a Store that gives nothing back to users.
type broken struct{ *memory.Store }

func (b broken) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if a[0].N < 0 && strings.HasPrefix(a[0].Key, "user") {
		return false, errors.New("away")
	}
	return b.Store.Take(ctx, a, d)
}
