package throttleenvoy

import (
	"cmp"
	"context"
	"slices"
	"sync"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

const (
	// MaxDescriptors bounds the descriptors of a request.
	MaxDescriptors = 100
	// MaxEntries bounds the entries of a descriptor.
	MaxEntries = 100
)

// Service answers Envoy's ratelimit filter by the admission control of an
// [admit.Control], about all descriptors of a request as one: if one is over its limit, so
// is the request, and none of them stays charged, see admit.Control.BeginAll. A request
// that cannot be decided gets an error, by which the filter fails open or closed as its
// failure_mode_deny says:
//
//	UNAVAILABLE        the Store failed
//	DEADLINE_EXCEEDED  the Store did not answer in the timeout of the filter
//	INVALID_ARGUMENT   no domain, no descriptor, above [MaxDescriptors] or
//	                   [MaxEntries], or is_negative_hits without Refunds
//
// A descriptor costs its hits_addend, or else that of the request, or else one. An
// addend of zero in the descriptor only looks: it is over the limit where the key owes
// something. One above what the limit allows at once is over the limit.
//
// The zero value admits everything. The fields must not change after first use. It is
// safe for concurrent use if what its fields hold is.
type Service struct {
	rlspb.UnimplementedRateLimitServiceServer

	// Control decides. Without Rules its Limit is for each domain and descriptor. Leave
	// Shed and MaxInFlight alone: nothing tells how long a request lasts. If nil, all
	// requests are admitted.
	Control *admit.Control
	// Request completes the request that the Control decides about: Value, Client,
	// whatever the program knows. Domain, Descriptor, Address (see
	// rules.Request.EntryAddress) and Cost are set already. If nil, nothing is added.
	Request func(ctx context.Context, in *rlspb.RateLimitRequest, q admit.Request) admit.Request
	// Limits honours the limit that a descriptor states: as a fixed window, in place of
	// the limits of rules with rules.Rule.Lookup. If false, it is ignored, as is one
	// without a unit.
	Limits bool
	// Refunds honours is_negative_hits: the hits of such a descriptor are given back once the
	// others of its request have passed, as far as its key has used them. If false, they are
	// refused: a caller that reaches the service could free itself of any limit.
	Refunds bool
	// Silent tells callers only when to come again, by Retry-After. If false, they also
	// get RateLimit and RateLimit-Policy. What x-ratelimit-* fields Envoy adds is up to
	// its enable_x_ratelimit_headers.
	Silent bool
}

var _ rlspb.RateLimitServiceServer = (*Service)(nil)

// ShouldRateLimit decides about a request; it is the method that Envoy calls.
func (s *Service) ShouldRateLimit(ctx context.Context, in *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	if what := s.flawOf(in); what != "" {
		return nil, status.Error(codes.InvalidArgument, "throttleenvoy: "+what)
	}
	if s.Control == nil {
		return s.answer(make([]*admit.Admission, len(in.GetDescriptors()))), nil
	}
	all, err := s.decide(ctx, in)
	if err != nil || len(all) > 1 && slices.ContainsFunc(all, refused) {
		if !refund(ctx, all) {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	defer end(all)
	switch {
	case err == nil:
		return s.answer(spread(in, all)), nil
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, status.Error(codes.Unavailable, "throttleenvoy: could not decide whether the limit allows this")
}

// flawOf returns what is wrong with a request, or "".
func (s *Service) flawOf(in *rlspb.RateLimitRequest) string {
	descriptors := in.GetDescriptors()
	switch {
	case in.GetDomain() == "":
		return "no domain; set domain in the ratelimit filter"
	case len(descriptors) == 0:
		return "no descriptors; the filter sends those of rate_limits"
	case len(descriptors) > MaxDescriptors:
		return "more than 100 descriptors"
	}
	for _, d := range descriptors {
		if len(d.GetEntries()) > MaxEntries {
			return "more than 100 entries in a descriptor"
		}
		if d.GetIsNegativeHits() && !s.Refunds {
			return "is_negative_hits is not allowed, so nothing was refunded; set Refunds of the Service, which is envoy.refunds of 'throttle serve', or take it out of the rate_limits"
		}
	}
	return ""
}

// admissions are used again.
var admissions = sync.Pool{New: func() any { return new(admit.Admission) }}

// refused reports whether a descriptor is over a limit. One that is refunded, and all where
// there is no Control, have no Admission.
func refused(a *admit.Admission) bool { return a != nil && !a.OK }

// decide decides about all descriptors, by one version of the rules. It returns the
// decisions in any case.
func (s *Service) decide(ctx context.Context, in *rlspb.RateLimitRequest) ([]*admit.Admission, error) {
	var version *rules.Compiled
	if s.Control.Rules != nil {
		version = s.Control.Rules.Load()
	}
	n := len(in.GetDescriptors())
	requests, all := make([]admit.Request, 0, n), make([]*admit.Admission, 0, n)
	var refunds []admit.Request
	for _, d := range in.GetDescriptors() {
		q := s.request(in, d)
		q.Version = version
		if s.Request != nil {
			q = s.Request(ctx, in, q)
		}
		if d.GetIsNegativeHits() {
			refunds = append(refunds, q)
			continue
		}
		requests, all = append(requests, q), append(all, admissions.Get().(*admit.Admission))
	}
	err := s.Control.BeginAll(ctx, requests, all)
	if err == nil && !slices.ContainsFunc(all, refused) {
		for _, q := range refunds {
			err = cmp.Or(err, s.Control.Refund(ctx, q))
		}
	}
	return all, err
}

// spread returns the Admissions of all descriptors: nil for those that are refunded.
func spread(in *rlspb.RateLimitRequest, of []*admit.Admission) []*admit.Admission {
	if len(of) == len(in.GetDescriptors()) {
		return of
	}
	all := make([]*admit.Admission, len(in.GetDescriptors()))
	for i, d := range in.GetDescriptors() {
		if !d.GetIsNegativeHits() {
			all[i], of = of[0], of[1:]
		}
	}
	return all
}

// refund gives back what was charged; after a failure of the Store the rest stays
// charged. It reports whether that has ended before ctx: otherwise it goes on, for as long
// as an Admission waits for its refund, and the Admissions must be left alone.
func refund(ctx context.Context, all []*admit.Admission) (ended bool) {
	if !slices.ContainsFunc(all, func(a *admit.Admission) bool { return a.OK }) {
		return true
	}
	all = slices.Clone(all)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, a := range all {
			if a.OK && a.GiveBack() != nil {
				return
			}
		}
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// end ends the Admissions. They teach a Shedder nothing, as they last no time.
func end(all []*admit.Admission) {
	for _, a := range all {
		a.Forget()
		admissions.Put(a)
	}
}

// decisive is the index of the decision that decides: the refusal, or of those admitted
// the one with the least part left. Below zero, if no limit did.
func decisive(all []*admit.Admission) int {
	if i := slices.IndexFunc(all, refused); i >= 0 {
		return i
	}
	var fewOf [4]int
	var few [4]limit.Decision
	of, decisions := fewOf[:0], few[:0]
	for i, a := range all {
		if a != nil && a.Binding >= 0 {
			of, decisions = append(of, i), append(decisions, a.Decisions[a.Binding])
		}
	}
	if i := limit.Binding(decisions); i >= 0 {
		return of[i]
	}
	return -1
}

// request returns what the Control decides about.
func (s *Service) request(in *rlspb.RateLimitRequest, d *descriptorpb.RateLimitDescriptor) admit.Request {
	addend := addendOf(in, d)
	q := admit.Request{Request: rules.Request{Domain: in.GetDomain(), Cost: func(string) int64 { return addend }}}
	q.Descriptor = make([]rules.Pair, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		q.Descriptor[i] = rules.Pair{Key: e.GetKey(), Value: e.GetValue()}
	}
	q.Address = q.EntryAddress()
	if s.Control.Rules == nil {
		q.Key = (&rules.Request{Descriptor: []rules.Pair{{Key: q.Domain}}}).DescriptorText() + "," + q.DescriptorText()
	}
	if s.Limits {
		q.Override = stated(d.GetLimit(), s.Control.Override)
	}
	return q
}

// addendOf returns how many hits a descriptor counts for.
func addendOf(in *rlspb.RateLimitRequest, d *descriptorpb.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return clamped(own.GetValue())
	}
	return int64(cmp.Or(in.GetHitsAddend(), 1))
}
