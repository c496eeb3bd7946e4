package throttleenvoy_test

import (
	"context"
	"strings"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// serviceOf is a Service with rules, whose refusals are not spread.
func serviceOf(t testing.TB, text string) *throttleenvoy.Service {
	t.Helper()
	c, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(c)
	return &throttleenvoy.Service{Control: &admit.Control{Rules: live, Spread: -1}}
}

// descriptor is one of KEY=VALUE,KEY=VALUE.
func descriptor(text string) *descriptorpb.RateLimitDescriptor {
	d := new(descriptorpb.RateLimitDescriptor)
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &descriptorpb.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// hits gives a descriptor an addend.
func hits(n uint64, d *descriptorpb.RateLimitDescriptor) *descriptorpb.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

// about is a request of the domain edge.
func about(all ...*descriptorpb.RateLimitDescriptor) *rlspb.RateLimitRequest {
	return &rlspb.RateLimitRequest{Domain: "edge", Descriptors: all}
}

func ask(t testing.TB, s *throttleenvoy.Service, in *rlspb.RateLimitRequest) *rlspb.RateLimitResponse {
	t.Helper()
	out, err := s.ShouldRateLimit(context.Background(), in)
	if err != nil {
		t.Fatalf("ShouldRateLimit(%v) = %v", in, err)
	}
	return out
}

// codes are the overall code and those of the descriptors: o is OK, x over limit.
func codesOf(out *rlspb.RateLimitResponse) string {
	one := func(c rlspb.RateLimitResponse_Code) string {
		return map[rlspb.RateLimitResponse_Code]string{rlspb.RateLimitResponse_OK: "o", rlspb.RateLimitResponse_OVER_LIMIT: "x"}[c]
	}
	text := one(out.GetOverallCode()) + ":"
	for _, s := range out.GetStatuses() {
		text += one(s.GetCode())
	}
	return text
}

// fieldsOf are the header fields of an answer, NAME: VALUE.
func fieldsOf(out *rlspb.RateLimitResponse) string {
	var all []string
	for _, h := range out.GetResponseHeadersToAdd() {
		all = append(all, h.GetKey()+": "+h.GetValue())
	}
	return strings.Join(all, "; ")
}
