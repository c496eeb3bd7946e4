package throttleenvoy_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// quotas is a QuotaService with rules.
func quotas(t testing.TB, text string) *throttleenvoy.QuotaService {
	t.Helper()
	live := new(rules.Live)
	swap(t, live, text)
	return &throttleenvoy.QuotaService{Rules: live}
}

func swap(t testing.TB, live *rules.Live, text string) {
	t.Helper()
	c, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	live.Swap(c)
}

// wire is a stream without a network, for virtual time.
type wire struct {
	grpc.ServerStream
	ctx context.Context
	in  chan *rlqspb.RateLimitQuotaUsageReports
	out chan *rlqspb.RateLimitQuotaResponse
}

func (w *wire) Context() context.Context { return w.ctx }

func (w *wire) Send(m *rlqspb.RateLimitQuotaResponse) error {
	w.out <- m
	return nil
}

func (w *wire) Recv() (*rlqspb.RateLimitQuotaUsageReports, error) {
	select {
	case m, ok := <-w.in:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
}

// proxy is a model of Envoy 1.40 with one domain. Its buckets live over its streams.
type proxy struct {
	t       *testing.T
	to      *throttleenvoy.QuotaService
	addr    net.Addr // nil: unknown
	wire    *wire
	cut     func()
	done    chan error
	buckets map[string]*modelBucket
	order   []string
	// allowed and denied are all requests so far, and granted what replaced buckets held.
	allowed, denied int
	granted         float64
}

// modelBucket is a bucket of Envoy 1.40: assigned by a token bucket that begins full, by a
// blanket rule, or not.
type modelBucket struct {
	id              *rlqspb.BucketId
	demand          float64 // requests a second
	owed            float64 // parts of requests that did not come yet
	strategy        *typepb.RateLimitStrategy
	until           time.Time
	tokens          float64
	allowed, denied uint64
	told            int // how often
	abandoned       bool
	last            time.Time // report; zero: none
}

func (p *proxy) connect() *proxy {
	ctx, cancel := context.WithCancel(peer.NewContext(p.t.Context(), &peer.Peer{Addr: p.addr}))
	p.wire = &wire{ctx: ctx, in: make(chan *rlqspb.RateLimitQuotaUsageReports), out: make(chan *rlqspb.RateLimitQuotaResponse, 100)}
	p.done = make(chan error, 1)
	go func(w *wire, done chan<- error) { done <- p.to.StreamRateLimitQuotas(w) }(p.wire, p.done)
	p.cut = cancel
	return p
}

func proxyOf(t *testing.T, to *throttleenvoy.QuotaService) *proxy {
	return (&proxy{t: t, to: to, buckets: map[string]*modelBucket{}}).connect()
}

// bucket is a bucket of KEY=VALUE,KEY=VALUE.
func (p *proxy) bucket(text string) *modelBucket {
	b := p.buckets[text]
	if b == nil {
		b = &modelBucket{id: &rlqspb.BucketId{Bucket: map[string]string{}}}
		for pair := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(pair, "=")
			b.id.Bucket[key] = value
		}
		p.buckets[text] = b
		p.order = append(p.order, text)
	}
	return b
}

// send reports about buckets.
func (p *proxy) send(all ...*modelBucket) {
	m := &rlqspb.RateLimitQuotaUsageReports{Domain: "edge"}
	for _, b := range all {
		u := &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: b.id, NumRequestsAllowed: b.allowed, NumRequestsDenied: b.denied, TimeElapsed: durationpb.New(0)}
		if !b.last.IsZero() {
			u.TimeElapsed = durationpb.New(time.Since(b.last).Truncate(time.Second))
		}
		b.allowed, b.denied, b.last = 0, 0, time.Now()
		m.BucketQuotaUsages = append(m.BucketQuotaUsages, u)
	}
	p.wire.in <- m
	p.read()
}

// reportAll is what Envoy does every five seconds.
func (p *proxy) reportAll() {
	var all []*modelBucket
	for _, name := range p.order {
		if b := p.buckets[name]; b != nil && !b.last.IsZero() {
			all = append(all, b)
		}
	}
	p.send(all...)
}

// read takes what the service has sent.
func (p *proxy) read() {
	synctest.Wait()
	for {
		select {
		case m := <-p.wire.out:
			for _, a := range m.GetBucketAction() {
				p.obey(a)
			}
		default:
			return
		}
	}
}

func (p *proxy) obey(a *rlqspb.RateLimitQuotaResponse_BucketAction) {
	for name, b := range p.buckets {
		if len(b.id.GetBucket()) != len(a.GetBucketId().GetBucket()) || !sameBucket(b.id, a.GetBucketId()) {
			continue
		}
		b.told++
		if a.GetAbandonAction() != nil {
			b.abandoned = true
			delete(p.buckets, name)
			return
		}
		q := a.GetQuotaAssignmentAction()
		s, ttl := q.GetRateLimitStrategy(), q.GetAssignmentTimeToLive().AsDuration()
		old, next := b.strategy.GetTokenBucket(), s.GetTokenBucket()
		if next != nil && (next.GetFillInterval().GetNanos() != 0 || next.GetFillInterval().GetSeconds() < 1 || next.GetMaxTokens() < 1 || next.GetTokensPerFill().GetValue() < 1) || ttl < 15*time.Second {
			p.t.Errorf("%s: Envoy 1.40 cannot do this: %v", name, a)
		}
		if next != nil && (old == nil || time.Now().After(b.until) || old.GetMaxTokens() != next.GetMaxTokens() || old.GetTokensPerFill().GetValue() != next.GetTokensPerFill().GetValue()) {
			b.tokens = float64(next.GetMaxTokens())
			p.granted += b.tokens
		} else if next != nil && old.GetFillInterval().GetSeconds() != next.GetFillInterval().GetSeconds() {
			p.t.Errorf("%s: Envoy 1.40 does not see the change from %v to %v", name, old, next)
		}
		b.strategy, b.until = s, time.Now().Add(ttl)
	}
}

func sameBucket(a, b *rlqspb.BucketId) bool {
	for key, value := range a.GetBucket() {
		if b.GetBucket()[key] != value {
			return false
		}
	}
	return true
}

// rate is what a bucket is assigned, a second; -1 for all, 0 for nothing.
func (b *modelBucket) rate() float64 {
	if b.strategy == nil || time.Now().After(b.until) {
		return -1
	}
	if t := b.strategy.GetTokenBucket(); t != nil {
		return float64(t.GetTokensPerFill().GetValue()) / float64(t.GetFillInterval().GetSeconds())
	}
	if b.strategy.GetBlanketRule() == typepb.RateLimitStrategy_DENY_ALL {
		return 0
	}
	return -1
}

// one is a request of a bucket; the first is reported at once.
func (p *proxy) one(b *modelBucket) (passes bool) {
	rate := b.rate()
	if t := b.strategy.GetTokenBucket(); t != nil && rate >= 0 {
		if passes = b.tokens >= 1; passes {
			b.tokens--
		}
	} else {
		passes = rate < 0
	}
	if passes {
		p.allowed++
		b.allowed++
	} else {
		p.denied++
		b.denied++
	}
	if b.last.IsZero() {
		p.send(b)
	}
	return passes
}

// step lets d pass, in which requests come as the buckets demand.
func (p *proxy) step(d time.Duration) {
	p.read()
	for _, name := range p.order {
		b := p.buckets[name]
		if b == nil {
			continue
		}
		if t := b.strategy.GetTokenBucket(); t != nil {
			b.tokens = min(b.tokens+b.rate()*d.Seconds(), float64(t.GetMaxTokens()))
		}
		for b.owed += b.demand * d.Seconds(); b.owed >= 1; b.owed-- {
			p.one(b)
		}
	}
}

// pass lets time pass for proxies; the n-th reports n times 700 ms later than the first.
func pass(d time.Duration, all ...*proxy) {
	const step = 100 * time.Millisecond
	for range d / step {
		time.Sleep(step)
		for i, p := range all {
			p.step(step)
			if at := time.Now().Add(-time.Duration(i) * 7 * step); at.Truncate(5*time.Second) == at && p.wire != nil {
				p.reportAll()
			}
		}
	}
}

// end closes the streams.
func end(all ...*proxy) {
	for _, p := range all {
		p.cut()
		<-p.done
	}
}
