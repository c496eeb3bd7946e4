package throttleenvoy_test

import (
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestQuotaUses: what each limit has, what which Envoy is assigned of it, and what that used;
// of an Envoy that is gone, until its assignment has expired.
func TestQuotaUses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		a, b := proxyOf(t, s), &proxy{t: t, to: s, addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}, buckets: map[string]*modelBucket{}}
		b.connect()
		a.bucket("user=jane").demand, b.bucket("user=jane").demand = 20, 200
		a.bucket("dear=1").demand, a.bucket("user=root").demand = 2, 9
		pass(32*time.Second, a, b)
		all := s.Uses(10, 10)
		if len(all) != 2 || !strings.HasPrefix(all[0].Key, "user/0/") || !strings.HasPrefix(all[1].Key, "dear/0") || all[0].Buckets != 2 || all[1].Buckets != 1 {
			t.Fatalf("two limits are shared, of one by two Envoys, and the allowed use none: %+v", all)
		}
		of := all[0].Shares
		if of[0].Envoy != "192.0.2.1:7" || of[1].Envoy != "" || !near(of[0].Allowed+of[0].Denied, 200, 5) || !near(of[1].Allowed, 20, 2) || of[1].Denied > 1 {
			t.Errorf("demands of 200/s and 20/s: %+v", of)
		}
		if bucket := b.bucket("user=jane"); of[0].Rate != bucket.rate() || of[0].Burst != int64(bucket.strategy.GetTokenBucket().GetMaxTokens()) || !of[0].Expires.Equal(bucket.until) {
			t.Errorf("assigned until %v: %v/s; said: %+v", bucket.until, bucket.rate(), of[0])
		}
		if u := all[0]; !near(u.Assigned, of[0].Rate+of[1].Rate, 0.01) || u.Assigned > 100 || u.Supply != 100 || !near(u.Allowed+u.Denied, 220, 6) || u.Away {
			t.Errorf("of 100/s: %+v", u)
		}
		if u := all[1]; !near(u.Allowed+u.Denied, 20, 3) || u.Shares[0].Rate != 10*a.bucket("dear=1").rate() {
			t.Errorf("requests that cost ten each: %+v", u)
		}
		end(b)
		if of := s.Uses(1, 10)[0].Shares; len(of) != 2 || of[0].Envoy != "" || of[0].Rate < 60 {
			t.Errorf("a stream has ended: %+v, want that its assignment is still shown", of)
		}
		pass(20*time.Second, a)
		if u := s.Uses(1, 10)[0]; u.Buckets != 1 {
			t.Errorf("what was assigned has expired: %+v", u)
		}
		end(a)
	})
}

// TestQuotaUsesBounds: the limits with the most requests are told, as many as are asked for.
func TestQuotaUsesBounds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		p := proxyOf(t, s)
		defer end(p)
		for i := range 20 {
			p.bucket(fmt.Sprintf("user=u%02d", i)).demand = float64(i + 1)
		}
		pass(7*time.Second, p)
		all := s.Uses(3, 0)
		if len(all) != 3 || all[0].Limit.Count != 100 || !near(all[0].Allowed, 20, 2) || !near(all[2].Allowed, 18, 2) || len(all[0].Shares) != 0 || all[0].Buckets != 1 {
			t.Errorf("three of twenty limits: %+v", all)
		}
		if n := len(s.Uses(100, 1)); n != 20 {
			t.Errorf("%d limits, want 20", n)
		}
		if all := s.Uses(-1, -1); len(all) != 0 {
			t.Errorf("none asked for: %+v", all)
		}
	})
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }
