package throttleenvoy_test

import (
	"context"
	"strings"
	"testing"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// TestQuotaBounds: what is beyond a bound, or malformed, is not answered, and counted.
func TestQuotaBounds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		s.MaxStreams, s.MaxBuckets = 1, 2
		p := proxyOf(t, s)
		defer end(p)
		p.read()
		second := proxyOf(t, s)
		if err := <-second.done; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a stream beyond MaxStreams: %v, want RESOURCE_EXHAUSTED", err)
		}
		p.send(&modelBucket{id: new(rlqspb.BucketId)}, &modelBucket{})
		for _, user := range []string{"user=a", "user=b", "user=c"} {
			p.one(p.bucket(user))
		}
		if p.bucket("user=b").told != 1 || p.bucket("user=c").told != 0 || s.Stats().Refused != 3 {
			t.Errorf("beyond MaxBuckets: told %d times; %+v", p.bucket("user=c").told, s.Stats())
		}
		p.cut()
		<-p.done
		p.connect()
		p.wire.in <- new(rlqspb.RateLimitQuotaUsageReports)
		if err := <-p.done; status.Code(err) != codes.InvalidArgument {
			t.Errorf("a stream without a domain: %v, want INVALID_ARGUMENT", err)
		}
		p.connect()
	})
}

// TestQuotaShareBound: no more buckets than MaxQuotaShare share a limit.
func TestQuotaShareBound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, `{"rules": [{"name": "all", "match": {"domains": "edge"}, "limits": "1000/s"}]}`)
		p := proxyOf(t, s)
		defer end(p)
		var all []*modelBucket
		for i := range throttleenvoy.MaxQuotaShare + 1 {
			all = append(all, &modelBucket{id: &rlqspb.BucketId{Bucket: map[string]string{"n": string(rune('a'+i%26)) + strings.Repeat("x", i/26)}}})
		}
		p.send(all...)
		if n := s.Stats(); n.Buckets != throttleenvoy.MaxQuotaShare || n.Refused != 1 || n.Limits != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestQuotaZero: the zero QuotaService admits everything.
func TestQuotaZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := proxyOf(t, new(throttleenvoy.QuotaService))
		defer end(p)
		b := p.bucket("user=jane")
		p.one(b)
		if b.told != 1 || b.rate() != -1 {
			t.Errorf("told %d times, %v", b.told, b.strategy)
		}
	})
}

// TestQuotaPanics: a panic of the user's code is one in the goroutine of the stream, not of
// the program, and holds up no other stream.
func TestQuotaPanics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		calls := 0
		s.Store = store.Func(func(_ context.Context, _ []limit.Ask, d []limit.Decision) (bool, error) {
			if calls++; calls == 1 {
				panic("a bug")
			}
			d[0].OK, d[0].Remaining = true, 100
			return true, nil
		})
		p := &proxy{t: t, to: s, buckets: map[string]*modelBucket{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, panicked := &wire{ctx: ctx, in: make(chan *rlqspb.RateLimitQuotaUsageReports)}, make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_ = s.StreamRateLimitQuotas(w) // it panics
		}()
		w.in <- usages(1, "a", "b", "c")
		if got := <-panicked; got != "a bug" || s.Stats().Streams != 0 {
			t.Errorf("a Store that panics: %v; %+v", got, s.Stats())
		}
		p.connect()
		defer end(p)
		b := p.bucket("user=jane")
		if p.one(b); b.told != 1 {
			t.Errorf("the next stream: told %d times", b.told)
		}
	})
}
