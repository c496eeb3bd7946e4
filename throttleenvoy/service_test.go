package throttleenvoy_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleenvoy"
)

const userRules = `{"deny": "203.0.113.0/24", "rules": [
	{"name": "user", "match": {"descriptor": "user"}, "key": "entry:user", "limits": "3/min burst 3"},
	{"name": "all", "match": {"descriptor": "generic_key=all"}, "limits": "5/h"}
]}`

// TestStatus: what is said of the limit that decided.
func TestStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := serviceOf(t, userRules)
		for i := range 3 {
			out := ask(t, s, about(descriptor("user=jane")))
			st := out.GetStatuses()[0]
			if codesOf(out) != "o:o" || st.GetLimitRemaining() != uint32(2-i) {
				t.Errorf("call %d: %v", i, out)
			}
		}
		time.Sleep(500 * time.Millisecond)
		out := ask(t, s, about(descriptor("user=jane")))
		st := out.GetStatuses()[0]
		l := st.GetCurrentLimit()
		if codesOf(out) != "x:x" || l.GetName() != "user" || l.GetRequestsPerUnit() != 3 || l.GetUnit() != rlspb.RateLimitResponse_RateLimit_MINUTE || l.GetUnitMultiplier() != nil || st.GetLimitRemaining() != 0 {
			t.Errorf("over the limit: %v", out)
		}
		if reset := st.GetDurationUntilReset().AsDuration(); reset != 20*time.Second {
			t.Errorf("19.5 s until the next may pass: reset %v, want 20s, as Envoy cuts it", reset)
		}
		if got, want := fieldsOf(out), `ratelimit-policy: "user";q=3;w=60; ratelimit: "user";r=0;t=20; retry-after: 20`; got != want {
			t.Errorf("fields %s, want %s", got, want)
		}
		if out := ask(t, s, about(descriptor("user=john"))); codesOf(out) != "o:o" {
			t.Errorf("another key: %v", out)
		}
		time.Sleep(20 * time.Second)
		if out := ask(t, s, about(descriptor("user=jane"))); codesOf(out) != "o:o" {
			t.Errorf("after Retry-After: %v", out)
		}
	})
}

// TestAddends: that of the descriptor wins, zero looks, too much never passes.
func TestAddends(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := serviceOf(t, `{"rules": [{"name": "a", "match": {"descriptor": "a"}, "limits": "10/h"}]}`)
		send := func(of uint32, d *descriptorpb.RateLimitDescriptor) *rlspb.RateLimitResponse {
			return ask(t, s, &rlspb.RateLimitRequest{Domain: "edge", HitsAddend: of, Descriptors: []*descriptorpb.RateLimitDescriptor{d}})
		}
		for _, x := range []struct {
			of   uint32
			d    *descriptorpb.RateLimitDescriptor
			want string
			left uint32
		}{
			{0, descriptor("a=1"), "o:o", 9},
			{2, descriptor("a=1"), "o:o", 7},
			{5, hits(3, descriptor("a=1")), "o:o", 4},
			{5, hits(0, descriptor("a=1")), "o:o", 4},
			{5, descriptor("a=1"), "x:x", 4},
			{math.MaxUint32, descriptor("a=1"), "x:x", 4},
			{1, hits(math.MaxUint64, descriptor("a=1")), "x:x", 4},
			{4, descriptor("a=1"), "o:o", 0},
			{1, hits(0, descriptor("a=1")), "o:o", 0},
		} {
			if out := send(x.of, x.d); codesOf(out) != x.want || out.GetStatuses()[0].GetLimitRemaining() != x.left {
				t.Errorf("addend %d of the request, %v of the descriptor: %v, want %s with %d left", x.of, x.d.GetHitsAddend(), out, x.want, x.left)
			}
		}
		out := send(11, descriptor("a=1"))
		if out.GetStatuses()[0].GetDurationUntilReset() != nil || strings.Contains(fieldsOf(out), "retry-after") {
			t.Errorf("what never passes has a time to come again: %v", out)
		}
	})
}

// TestDenied: the deny list refuses by the address in an entry, without a limit.
func TestDenied(t *testing.T) {
	s := serviceOf(t, userRules)
	for _, entry := range []string{"remote_address=203.0.113.7", "masked_remote_address=203.0.113.0/25"} {
		out := ask(t, s, about(descriptor("x=1,"+entry)))
		if codesOf(out) != "x:x" || out.GetStatuses()[0].GetCurrentLimit() != nil || fieldsOf(out) != "" {
			t.Errorf("%s: %v", entry, out)
		}
	}
	if out := ask(t, s, about(descriptor("remote_address=203.0.114.7"))); codesOf(out) != "o:o" {
		t.Errorf("another address: %v", out)
	}
}

// TestUnits: a limit is stated in the units of Envoy, where they can express it.
func TestUnits(t *testing.T) {
	for _, x := range []struct {
		limit, unit string
		n           uint32
		count       uint32
	}{
		{"5/s", "SECOND", 0, 5},
		{"5/30s", "SECOND", 30, 5},
		{"5/10m", "MINUTE", 10, 5},
		{"5/h fixed-window", "HOUR", 0, 5},
		{"5/day", "DAY", 0, 5},
		{"5/168h", "WEEK", 0, 5},
		{"5/720h", "MONTH", 0, 5},
		{"5/8760h", "YEAR", 0, 5},
		{"5/month calendar-window", "MONTH", 0, 5},
		{"5/day calendar-window", "DAY", 0, 5},
		{"9000000000/s", "SECOND", 0, math.MaxUint32},
		{"0/s", "SECOND", 0, 0},
		{"5/500ms", "", 0, 0},
	} {
		s := serviceOf(t, `{"rules": [{"name": "a", "match": {"domains": "edge"}, "limits": "`+x.limit+`"}]}`)
		l := ask(t, s, about(descriptor("a=1"))).GetStatuses()[0].GetCurrentLimit()
		unit := ""
		if l != nil {
			unit = l.GetUnit().String()
		}
		if unit != x.unit || l.GetUnitMultiplier().GetValue() != x.n || l.GetRequestsPerUnit() != x.count {
			t.Errorf("%s: %v, want %d by %d %s", x.limit, l, x.count, x.n, x.unit)
		}
	}
}

// TestStatedLimits: the limit of a descriptor counts for rules that look up, if so chosen.
func TestStatedLimits(t *testing.T) {
	for _, x := range []struct {
		honoured, lookup bool
		limit            *descriptorpb.RateLimitDescriptor_RateLimitOverride
		want             uint32
		unit             rlspb.RateLimitResponse_RateLimit_Unit
	}{
		{true, true, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_HOUR}, 7, rlspb.RateLimitResponse_RateLimit_HOUR},
		{true, true, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(60)}, 7, rlspb.RateLimitResponse_RateLimit_MINUTE},
		{true, true, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_YEAR, UnitMultiplier: wrapperspb.UInt32(math.MaxUint32)}, 7, rlspb.RateLimitResponse_RateLimit_YEAR},
		{true, true, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7}, 3, rlspb.RateLimitResponse_RateLimit_MINUTE},
		{true, true, nil, 3, rlspb.RateLimitResponse_RateLimit_MINUTE},
		{true, false, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_HOUR}, 3, rlspb.RateLimitResponse_RateLimit_MINUTE},
		{false, true, &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit_HOUR}, 3, rlspb.RateLimitResponse_RateLimit_MINUTE},
	} {
		lookup := ""
		if x.lookup {
			lookup = `"lookup": true, `
		}
		s := serviceOf(t, `{"rules": [{"name": "user", `+lookup+`"match": {"descriptor": "user"}, "key": "entry:user", "limits": "3/min"}]}`)
		s.Limits = x.honoured
		d := descriptor("user=jane")
		d.Limit = x.limit
		if l := ask(t, s, about(d)).GetStatuses()[0].GetCurrentLimit(); l.GetRequestsPerUnit() != x.want || l.GetUnit() != x.unit {
			t.Errorf("Limits %t, lookup %t, %v: %v, want %d by %v", x.honoured, x.lookup, x.limit, l, x.want, x.unit)
		}
	}
}

// TestRefusedRequests: what cannot be decided is an error, by which Envoy fails open or
// closed, and charges nothing.
func TestRefusedRequests(t *testing.T) {
	negative := descriptor("user=jane")
	negative.IsNegativeHits = true
	many := make([]*descriptorpb.RateLimitDescriptor, throttleenvoy.MaxDescriptors+1)
	for i := range many {
		many[i] = descriptor("user=jane")
	}
	long := descriptor(strings.TrimSuffix(strings.Repeat("a=1,", throttleenvoy.MaxEntries+1), ","))
	s := serviceOf(t, userRules)
	for _, x := range []struct {
		in   *rlspb.RateLimitRequest
		want string
	}{
		{nil, "no domain"},
		{&rlspb.RateLimitRequest{Descriptors: many[:1]}, "no domain"},
		{about(), "no descriptors"},
		{about(many...), "more than 100 descriptors"},
		{about(long), "more than 100 entries"},
		{about(descriptor("user=jane"), negative), "is_negative_hits is not allowed"},
	} {
		out, err := s.ShouldRateLimit(t.Context(), x.in)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), x.want) {
			t.Errorf("ShouldRateLimit(%.80v) = %v, %v; want INVALID_ARGUMENT %s", x.in, out, err, x.want)
		}
	}
	if out := ask(t, s, about(descriptor("user=jane"))); out.GetStatuses()[0].GetLimitRemaining() != 2 {
		t.Errorf("a refused request was charged: %v", out)
	}
}

// TestPlain: without rules the limit is for each domain and descriptor; without a
// Control nothing is limited.
func TestPlain(t *testing.T) {
	s := &throttleenvoy.Service{Silent: true, Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}, Spread: -1}}
	for _, x := range []struct{ domain, of, want string }{
		{"edge", "a=1", "o:o"},
		{"edge", "a=1", "x:x"},
		{"edge", "a=2", "o:o"},
		{"other", "a=1", "o:o"},
		{"edge,a=1", "b=1", "o:o"},
		{"edge", "a=1,b=1", "o:o"},
	} {
		out := ask(t, s, &rlspb.RateLimitRequest{Domain: x.domain, Descriptors: []*descriptorpb.RateLimitDescriptor{descriptor(x.of)}})
		if codesOf(out) != x.want {
			t.Errorf("%s %s: %v, want %s", x.domain, x.of, out, x.want)
		}
		if got := fieldsOf(out); x.want == "o:o" && got != "" || x.want != "o:o" && got != "retry-after: 3600" {
			t.Errorf("Silent: fields %s", got)
		}
	}
	if out := ask(t, new(throttleenvoy.Service), about(descriptor("a=1"), descriptor("b=1"))); codesOf(out) != "o:oo" || fieldsOf(out) != "" {
		t.Errorf("without a Control: %v", out)
	}
}

// TestRequest: the program completes what the rules look at.
func TestRequest(t *testing.T) {
	c, err := rules.Parse([]byte(`{"rules": [{"name": "plan", "match": {"domains": "edge"}, "key": "plan", "limits": "1/h"}]}`), "plan")
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(c)
	s := &throttleenvoy.Service{
		Control: &admit.Control{Rules: live},
		Request: func(_ context.Context, in *rlspb.RateLimitRequest, q admit.Request) admit.Request {
			q.Value = func(string) (string, bool) { return q.Descriptor[0].Value[:1], in.GetDomain() == "edge" }
			return q
		},
	}
	got := codesOf(ask(t, s, about(descriptor("user=a1")))) + codesOf(ask(t, s, about(descriptor("user=a2")))) + codesOf(ask(t, s, about(descriptor("user=b1"))))
	if got != "o:ox:xo:o" {
		t.Errorf("two of plan a and one of b: %s", got)
	}
}
