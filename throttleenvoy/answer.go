package throttleenvoy

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/signal"
)

const (
	passes = rlspb.RateLimitResponse_OK
	over   = rlspb.RateLimitResponse_OVER_LIMIT
)

// answer is what Envoy is told of the decisions about all descriptors.
func (s *Service) answer(all []*admit.Admission) *rlspb.RateLimitResponse {
	out := &rlspb.RateLimitResponse{OverallCode: passes, Statuses: make([]*rlspb.RateLimitResponse_DescriptorStatus, len(all))}
	if slices.ContainsFunc(all, refused) {
		out.OverallCode = over
	}
	for i, a := range all {
		out.Statuses[i] = statusOf(a, out.OverallCode == over)
	}
	if i := decisive(all); i >= 0 {
		out.ResponseHeadersToAdd = s.fields(all[i])
	}
	return out
}

// statusOf is what Envoy is told of the decision about a descriptor; refunded reports that
// what was admitted was refunded, if it was charged at all.
func statusOf(a *admit.Admission, refunded bool) *rlspb.RateLimitResponse_DescriptorStatus {
	out := &rlspb.RateLimitResponse_DescriptorStatus{Code: passes}
	if a == nil {
		return out
	}
	reset := limit.Never
	if i := a.Binding; i >= 0 {
		d := a.Decisions[i]
		left := d.Remaining
		if refunded && a.OK && (left > 0 || !a.Asks[i].Debt) { // how much was owed is not told
			left += min(max(d.N, 0), math.MaxInt64-max(left, 0))
		}
		out.CurrentLimit, out.LimitRemaining = limitOf(a.LimitName(i), a.Asks[i].Limit), small(left)
		reset = d.ResetAfter
	}
	if !a.OK {
		out.Code, reset = over, a.RetryAfterWhole
	}
	if reset != limit.Never {
		out.DurationUntilReset = durationpb.New(signal.Seconds(reset)) // Envoy cuts it to seconds
	}
	return out
}

// fields are the header fields that callers get, of the decision of the descriptor that
// decided.
func (s *Service) fields(a *admit.Admission) (all []*corepb.HeaderValue) {
	values := new([3]corepb.HeaderValue) // all in one allocation
	add := func(name, value string) {
		v := &values[len(all)]
		v.Key, v.Value = name, value
		if all == nil {
			all = make([]*corepb.HeaderValue, 0, len(values))
		}
		all = append(all, v)
	}
	if !s.Silent {
		if policy, current := a.RateLimit(); policy != "" {
			add("ratelimit-policy", policy)
			add("ratelimit", current)
		}
	}
	if !a.OK && a.RetryAfter != limit.Never {
		add("retry-after", strconv.FormatInt(int64(signal.Seconds(a.RetryAfterWhole)/time.Second), 10))
	}
	return all
}

const day = 24 * time.Hour

// units are those of Envoy, the longest first: its months have 30 days.
var units = [...]struct {
	unit rlspb.RateLimitResponse_RateLimit_Unit
	is   typepb.RateLimitUnit // what a descriptor may state
	long time.Duration
}{
	{rlspb.RateLimitResponse_RateLimit_YEAR, typepb.RateLimitUnit_YEAR, 365 * day},
	{rlspb.RateLimitResponse_RateLimit_MONTH, typepb.RateLimitUnit_MONTH, 30 * day},
	{rlspb.RateLimitResponse_RateLimit_WEEK, typepb.RateLimitUnit_UNKNOWN, 7 * day},
	{rlspb.RateLimitResponse_RateLimit_DAY, typepb.RateLimitUnit_DAY, day},
	{rlspb.RateLimitResponse_RateLimit_HOUR, typepb.RateLimitUnit_HOUR, time.Hour},
	{rlspb.RateLimitResponse_RateLimit_MINUTE, typepb.RateLimitUnit_MINUTE, time.Minute},
	{rlspb.RateLimitResponse_RateLimit_SECOND, typepb.RateLimitUnit_SECOND, time.Second},
}

// limitOf returns a limit as Envoy has it; nil for one whose period is not of whole
// seconds.
func limitOf(name string, l limit.Limit) *rlspb.RateLimitResponse_RateLimit {
	out := &rlspb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: small(l.Count)}
	n := int64(0)
	if l.Kind == limit.CalendarWindow && l.Period > limit.Week {
		out.Unit, n = rlspb.RateLimitResponse_RateLimit_MONTH, int64((l.Period-1)/limit.Month+1)
	}
	for _, u := range units {
		if n == 0 && l.Period%u.long == 0 {
			out.Unit, n = u.unit, int64(l.Period/u.long)
		}
	}
	if n == 0 || n > math.MaxUint32 {
		return nil
	}
	if n > 1 {
		out.UnitMultiplier = wrapperspb.UInt32(uint32(n))
	}
	return out
}

// stated returns the overrides of a request whose descriptor states a limit; otherwise
// is what returns them if it does not.
func stated(own *descriptorpb.RateLimitDescriptor_RateLimitOverride, otherwise func(context.Context, string, []string) (rules.Override, bool)) func(context.Context, string, []string) (rules.Override, bool) {
	for _, u := range units {
		if own.GetUnit() != u.is || u.is == typepb.RateLimitUnit_UNKNOWN {
			continue
		}
		n := int64(1)
		if m := own.GetUnitMultiplier(); m != nil {
			n = min(max(int64(m.GetValue()), 1), math.MaxInt64/int64(u.long))
		}
		l := rules.Limit{Kind: limit.FixedWindow, Count: int64(own.GetRequestsPerUnit()), Period: time.Duration(n) * u.long}
		return func(context.Context, string, []string) (rules.Override, bool) {
			return rules.Override{Limits: []rules.Limit{l}}, true
		}
	}
	return otherwise
}

// clamped is n as far as it goes.
func clamped(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// small is n in 32 bits, from zero.
func small(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
