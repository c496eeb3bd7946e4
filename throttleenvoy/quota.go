package throttleenvoy

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

const (
	// MaxQuotaMessage is a good grpc.MaxRecvMsgSize for a server with a QuotaService: a
	// report of Envoy has all of its buckets, some 100 bytes each.
	MaxQuotaMessage = 16 << 20
	// MaxBucketID bounds the bytes of all keys and values in the id of a bucket.
	MaxBucketID = 4 << 10
	// MaxQuotaShare bounds the buckets that share one limit, each stream counted by itself.
	MaxQuotaShare = 1000

	maxActions   = 1000 // of a message
	storeTimeout = time.Second
	takers       = 16 // calls of the Store at a time, for one message
)

// QuotaService is Envoy's rate limit quota service (RLQS): it assigns token buckets to
// Envoy's rate_limit_quota filter, which then decides by itself, without a call for each
// request. Envoy reports every five seconds what each bucket has used; that is charged to
// the Store, as a debt, and each limit of the Rules is divided among all streams that have a
// bucket for it, by max-min fairness of what they demand.
//
// The id of a bucket is the descriptor that the rules are asked about, with its entries in
// the order of their keys. Of several limits the tightest counts. Shadow rules are not
// asked. See docs/envoy-quota.md for what is assigned, for the bounds, and for what the
// configuration of Envoy must have.
//
// Over any time t all Envoys of one service together admit at most
//
//	burst + rate × t + what the buckets held that were replaced
//
// A bucket holds the requests of a second of its rate, or its part of half of what the limit
// has left, if that is more.
//
// The zero value admits everything. The fields must not change after first use. It is safe
// for concurrent use. Each stream has two goroutines, and up to fifteen more while a report is
// charged; they end with it.
type QuotaService struct {
	rlqspb.UnimplementedRateLimitQuotaServiceServer

	// Rules say which buckets are subject to which limits. They may be swapped at any time;
	// each bucket follows at its next report. If nil, all are admitted.
	Rules *rules.Live
	// Store remembers how much each key has used. It is called once for each bucket that was
	// used, for at most a second, 16 at a time for each stream. Leave a store.Guard out: while
	// the Store fails, assignments go on as they are, none is raised, and a new key gets what its
	// limit states; what is used meanwhile is not charged. If nil, a Store of this service's own.
	Store store.Store
	// Shared says that services in other processes use the same Store. Each then takes a part of a
	// limit that is as large as its part of the demand, which the Store counts as well: it is
	// called twice more for each limit of a bucket that was used. If false, this one divides the
	// whole limit.
	Shared bool
	// Override returns the overrides of keys that have none in the Rules, as that of an
	// admit.Control does. If nil, there are none.
	Override func(ctx context.Context, rule string, key []string) (o rules.Override, ok bool)
	// MaxStreams bounds the streams; Envoy has one for each domain and server. Further ones
	// are refused with RESOURCE_EXHAUSTED. If zero or below, 1000.
	MaxStreams int
	// MaxBuckets bounds the buckets of all streams together, of some 2 KiB each and their ids.
	// Further ones, those beyond MaxQuotaShare, and those with an id beyond MaxBucketID or
	// MaxEntries, are not assigned anything: the no_assignment_behavior of Envoy decides. If
	// zero or below, 100,000.
	MaxBuckets int
	// Idle is how long a bucket without requests is kept; then Envoy forgets it too.
	// If zero or below, 5 minutes.
	Idle time.Duration

	once  sync.Once
	own   store.Store
	retry atomic.Int64 // when a Store that fails is called again, in nanoseconds of Unix time

	mu    sync.Mutex
	table quotaTable
}

var _ rlqspb.RateLimitQuotaServiceServer = (*QuotaService)(nil)

// QuotaStats are the numbers of a QuotaService.
type QuotaStats struct {
	// Streams, Buckets and Limits are the current ones: a bucket counts for each stream, and
	// until what its Envoy was assigned has expired; a limit is one key of a rule.
	Streams, Buckets, Limits int
	// Allowed and Denied are the requests that Envoys have reported.
	Allowed, Denied int64
	// Assigned counts the assignments that were changed or made, Renewed those that were sent
	// once more, Abandoned the buckets that Envoys were told to forget, and Refused the reports of
	// buckets that were not answered: beyond a bound, or malformed.
	Assigned, Renewed, Abandoned, Refused int64
	// StoreErrors counts the reports that could not be charged.
	StoreErrors int64
}

// Stats returns the numbers so far.
func (s *QuotaService) Stats() QuotaStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.table.stats
	out.Streams, out.Buckets, out.Limits = s.table.streams, s.table.buckets, len(s.table.limits)
	return out
}

// StreamRateLimitQuotas serves one stream of reports and assignments; it is the method
// that Envoy calls. The error is INVALID_ARGUMENT for a stream that begins without a domain.
func (s *QuotaService) StreamRateLimitQuotas(g rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	s.once.Do(func() {
		if s.own = s.Store; s.own == nil {
			s.own = store.InProcess()
		}
	})
	stream := &quotaStream{envoy: envoyOf(g.Context()), wake: make(chan struct{}, 1), buckets: map[string]*quotaBucket{}}
	if !s.open() {
		return status.Error(codes.ResourceExhausted, "throttleenvoy: too many streams of reports")
	}
	defer s.close(stream)
	reports, ended := make(chan *rlqspb.RateLimitQuotaUsageReports), make(chan error, 1)
	go receive(g, reports, ended)
	for {
		select {
		case in := <-reports:
			if stream.domain == "" {
				stream.domain = in.GetDomain()
			}
			if stream.domain == "" {
				return status.Error(codes.InvalidArgument, "throttleenvoy: no domain; set domain in the rate_limit_quota filter")
			}
			s.report(g.Context(), stream, in.GetBucketQuotaUsages())
		case <-stream.wake:
		case err := <-ended:
			return err
		case <-g.Context().Done():
			return status.FromContextError(g.Context().Err()).Err()
		}
		if err := s.send(g, stream); err != nil {
			return err
		}
	}
}

// receive passes on the reports of a stream until it ends.
func receive(g rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer, reports chan<- *rlqspb.RateLimitQuotaUsageReports, ended chan<- error) {
	for {
		in, err := g.Recv()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if in == nil || err != nil {
			ended <- err
			return
		}
		select {
		case reports <- in:
		case <-g.Context().Done():
			return
		}
	}
}

// open counts a stream, if there is room.
func (s *QuotaService) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.MaxStreams
	if most <= 0 {
		most = 1000
	}
	if s.table.streams >= most {
		return false
	}
	s.table.streams++
	return true
}

// close keeps what the proxy of a stream was told until it has expired.
func (s *QuotaService) close(stream *quotaStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.streams--
	s.table.lose(stream, time.Now())
}

// report charges what a proxy has used, and divides the limits.
func (s *QuotaService) report(ctx context.Context, stream *quotaStream, all []*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	now := time.Now()
	s.mu.Lock()
	uses := s.table.uses(stream, all, now)
	s.mu.Unlock()
	s.charge(ctx, stream.domain, uses, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.apply(stream, uses, time.Now(), s.bounds()) // the Store may have taken a second
}

// bounds are the bounds of the table.
func (s *QuotaService) bounds() quotaBounds {
	b := quotaBounds{buckets: s.MaxBuckets, idle: s.Idle}
	if b.buckets <= 0 {
		b.buckets = 100_000
	}
	if b.idle <= 0 {
		b.idle = 5 * time.Minute
	}
	return b
}

// send sends what a stream is to be told.
func (s *QuotaService) send(g rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer, stream *quotaStream) error {
	for {
		s.mu.Lock()
		out := s.table.actions(stream, maxActions)
		s.mu.Unlock()
		if len(out) == 0 {
			return nil
		}
		if err := g.Send(&rlqspb.RateLimitQuotaResponse{BucketAction: out}); err != nil {
			return err
		}
	}
}
