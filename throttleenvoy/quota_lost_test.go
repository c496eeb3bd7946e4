package throttleenvoy_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// TestQuotaLostTwo: which of two lost proxies comes back first is not known. Together they
// hold no more than the limit all the same, and each is told something that it cannot take for
// what it has.
func TestQuotaLostTwo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		a, b := proxyOf(t, s), proxyOf(t, s)
		one, two := a.bucket("user=jane"), b.bucket("user=jane")
		one.demand, two.demand = 300, 20
		pass(32*time.Second, a, b)
		end(a, b)
		for i, p := range []*proxy{b, a} {
			of := p.bucket("user=jane")
			before := of.told
			p.connect()
			time.Sleep(time.Second)
			p.reportAll()
			if of.told != before+2 {
				t.Errorf("proxy %d was told %d things, want DENY_ALL and a bucket", i, of.told-before)
			}
			if one.rate() < 60 || one.rate()+two.rate() > 100 {
				t.Errorf("after proxy %d has come back: %v/s and %v/s of 100/s", i, one.rate(), two.rate())
			}
		}
		end(a, b)
	})
}

// TestQuotaForgotten: a bucket that its proxy reports no more is forgotten.
func TestQuotaForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		p := proxyOf(t, s)
		defer end(p)
		kept := p.bucket("user=jane")
		kept.demand = 1
		p.one(p.bucket("user=john"))
		delete(p.buckets, "user=john")
		pass(7*time.Minute, p)
		if n := s.Stats(); n.Buckets != 1 || n.Abandoned != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestQuotaStoreHangs: a Store that does not answer holds up a report for a second, however
// many buckets it has.
func TestQuotaStoreHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		s.Store = store.Func(func(ctx context.Context, _ []limit.Ask, _ []limit.Decision) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		})
		p := proxyOf(t, s)
		defer end(p)
		var all []*modelBucket
		for i := range 200 {
			all = append(all, p.bucket("user="+strconv.Itoa(i)))
		}
		began := time.Now()
		p.send(all...)
		time.Sleep(2 * time.Second)
		p.read()
		p.send(all[:1]...) // which is read when the first is done
		if n := s.Stats(); n.Assigned != 200 || time.Since(began) > 3*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), n)
		}
	})
}
