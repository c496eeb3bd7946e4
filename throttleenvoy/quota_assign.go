package throttleenvoy

import (
	"math"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle/throttleenvoy/internal/assign"
)

// learn updates a limit by what is known of it since a use, the i-th of whose limits it is. It
// reports whether the limit itself has changed.
func (l *quotaLimit) learn(u *quotaUse, i int, now time.Time) (changed bool) {
	changed = l.limit != u.asks[i].Limit
	l.limit = u.asks[i].Limit
	switch {
	case u.decisions != nil:
		l.supply, l.away = assign.SupplyOf(l.limit, u.decisions[i]), false
	case u.failed:
		l.away = true
	}
	if changed && u.decisions == nil {
		l.supply = assign.Rated(l.limit)
	}
	if u.demands != nil {
		l.counted.add(u.demands[i].window, u.demand(i))
		l.mine, l.others = u.demands[i].split(l.counted, now)
	}
	return changed
}

// divide divides a limit among its buckets.
func (l *quotaLimit) divide(now time.Time) {
	shares := make([]assign.Share, len(l.buckets))
	for i, b := range l.buckets {
		cost := b.partOf(l).cost
		s := b.claim.Share(now)
		s.Told, s.Held = s.Told.Times(cost), s.Held.Times(cost)
		if s.Demand != assign.Unknown {
			s.Demand = min(s.Demand, b.elsewhere(l)).Times(cost)
		}
		shares[i] = s
	}
	l.part = l.supply.Part(l.mine, l.others)
	assign.Divide(l.part.Rate, !l.away, shares)
	for i, b := range l.buckets {
		p := b.partOf(l)
		p.target, p.next, p.kept = shares[i].Target, shares[i].Next, shares[i].Next == shares[i].Told
	}
}

// partOf is the part of a bucket in one of its limits.
func (b *quotaBucket) partOf(l *quotaLimit) *quotaPart {
	for i := range b.parts {
		if b.parts[i].quotaLimit == l {
			return &b.parts[i]
		}
	}
	return nil
}

// elsewhere is what the other limits of a bucket let it use, in requests.
func (b *quotaBucket) elsewhere(l *quotaLimit) assign.Rate {
	r := assign.MaxRate
	for _, p := range b.parts {
		if p.quotaLimit != l {
			r = min(r, max(p.target, p.supply.Rate/assign.Rate(len(p.buckets)))/assign.Rate(p.cost))
		}
	}
	return r
}

// conclude decides what a bucket is told now, if anything. due says that it is to be told
// even the same once more.
func (t *quotaTable) conclude(b *quotaBucket, v verdict, due bool, now time.Time) {
	if v == limited && b.exhausted() {
		v = denies
	}
	if v != limited {
		if v != b.verdict || due {
			t.tell(b, v, now)
			b.claim.Forget()
		}
		return
	}
	told := b.claim.Told(now)
	rate, kept := b.rate(told)
	kept = kept && told != (assign.Bucket{}) && b.verdict == limited
	if kept && !due {
		return
	}
	if !kept {
		burst, most := b.burst()
		told = assign.BucketOf(rate, burst, most)
	}
	b.told = b.claim.Tell(now, told)
	t.tell(b, limited, now)
}

// exhausted reports whether a limit has nothing left, not even as a rate.
func (b *quotaBucket) exhausted() bool {
	for _, p := range b.parts {
		if p.supply.Rate == 0 && p.supply.Burst == 0 {
			return true
		}
	}
	return false
}

// rate is what all limits of a bucket allow, in requests; it is kept if that is what it was
// told. Limits that are not divided now do not raise it.
func (b *quotaBucket) rate(told assign.Bucket) (r assign.Rate, kept bool) {
	r = assign.MaxRate
	for _, p := range b.parts {
		if !p.dirty || p.kept {
			r = min(r, told.Rate())
		} else {
			r = min(r, p.next/assign.Rate(p.cost))
		}
	}
	return r, r == told.Rate()
}

// burst is how many requests may come at once by all limits of a bucket, and could ever.
func (b *quotaBucket) burst() (burst, most int64) {
	burst, most = math.MaxInt64, math.MaxInt64
	for _, p := range b.parts {
		burst = min(burst, p.part.Burst/int64(len(p.buckets))/p.cost)
		most = min(most, p.supply.Most/p.cost)
	}
	return burst, most
}

// tell queues what a bucket is to be told.
func (t *quotaTable) tell(b *quotaBucket, v verdict, now time.Time) {
	if v == b.verdict && (v != limited || b.told == b.sent) {
		t.stats.Renewed++
	} else {
		t.stats.Assigned++
	}
	b.verdict, b.since, b.sent = v, now, b.told
	b.wake()
}

// wake lets the stream of a bucket tell it something.
func (b *quotaBucket) wake() {
	if b.waits {
		return
	}
	b.waits = true
	b.stream.tell = append(b.stream.tell, b)
	select {
	case b.stream.wake <- struct{}{}:
	default: // it is awake
	}
}

// actions are what a stream is to be told next, about at most as many buckets.
func (t *quotaTable) actions(stream *quotaStream, most int) (all []*rlqspb.RateLimitQuotaResponse_BucketAction) {
	n := min(len(stream.tell), most)
	for _, b := range stream.tell[:n] {
		b.waits = false
		if b.gone {
			continue
		}
		if b.abandon {
			t.remove(b)
			t.stats.Abandoned++
		}
		if b.unsure && b.verdict == limited && !b.abandon {
			// Envoy may take the assignment for the one that it has, see assign.Bucket.Unlike.
			all = append(all, b.action(denies))
		}
		b.unsure = false
		all = append(all, b.action(b.verdict))
	}
	clear(stream.tell[:n])
	if stream.tell = stream.tell[n:]; len(stream.tell) == 0 {
		stream.tell = nil
	}
	return all
}

// action tells a bucket what it is assigned.
func (b *quotaBucket) action(v verdict) *rlqspb.RateLimitQuotaResponse_BucketAction {
	out := &rlqspb.RateLimitQuotaResponse_BucketAction{BucketId: b.id}
	if b.abandon {
		out.BucketAction = &rlqspb.RateLimitQuotaResponse_BucketAction_AbandonAction_{AbandonAction: new(rlqspb.RateLimitQuotaResponse_BucketAction_AbandonAction)}
		return out
	}
	s := new(typepb.RateLimitStrategy)
	switch v {
	case denies:
		s.Strategy = &typepb.RateLimitStrategy_BlanketRule_{BlanketRule: typepb.RateLimitStrategy_DENY_ALL}
	case admits:
		s.Strategy = &typepb.RateLimitStrategy_BlanketRule_{BlanketRule: typepb.RateLimitStrategy_ALLOW_ALL}
	default:
		s.Strategy = &typepb.RateLimitStrategy_TokenBucket{TokenBucket: &typepb.TokenBucket{
			MaxTokens: b.told.Max, TokensPerFill: wrapperspb.UInt32(b.told.Fill),
			FillInterval: durationpb.New(time.Duration(b.told.Every) * time.Second),
		}}
	}
	out.BucketAction = &rlqspb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &rlqspb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(assign.TTL), RateLimitStrategy: s,
		},
	}
	return out
}
