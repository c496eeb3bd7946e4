package throttleenvoy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/memory"
)

// TestQuotaShared: services in two processes divide a limit by their demand, through
// the Store.
func TestQuotaShared(t *testing.T) {
	for _, x := range []struct{ one, two, wantOne, wantTwo float64 }{{300, 300, 50, 50}, {10, 20, 10, 20}, {300, 100, 50, 50}, {20, 300, 17, 83}} {
		bubble.Test(t, func(t *testing.T) {
			kept := new(memory.Store)
			var all []*proxy
			for _, demand := range []float64{x.one, x.two} {
				s := quotas(t, quotaRules)
				s.Store, s.Shared = kept, true
				p := proxyOf(t, s)
				p.bucket("user=jane").demand = demand
				all = append(all, p)
			}
			defer end(all...)
			pass(21*time.Second, all...)
			before, told := [2]int{all[0].allowed, all[1].allowed}, all[0].bucket("user=jane").told
			r := rand.New(rand.NewPCG(1, 1))
			for range 60 {
				for i, demand := range []float64{x.one, x.two} {
					all[i].bucket("user=jane").demand = demand * (0.6 + 0.8*r.Float64())
				}
				pass(time.Second, all...)
			}
			if n := all[0].bucket("user=jane").told - told; n > 9 {
				t.Errorf("demands of %v/s and %v/s: told %d times in a minute, want about once in ten seconds", x.one, x.two, n)
			}
			one, two := float64(all[0].allowed-before[0])/60, float64(all[1].allowed-before[1])/60
			if math.Abs(one-x.wantOne) > 0.1*x.wantOne+0.5 || math.Abs(two-x.wantTwo) > 0.1*x.wantTwo+0.5 {
				t.Errorf("demands of %v/s and %v/s: %.1f and %.1f were admitted, want %v and %v", x.one, x.two, one, two, x.wantOne, x.wantTwo)
			}
		})
	}
}

// TestQuotaSharedGrows: a demand that grows is seen at once, not when a whole window has it.
func TestQuotaSharedGrows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		kept := new(memory.Store)
		var all []*proxy
		for range 2 {
			s := quotas(t, quotaRules)
			s.Store, s.Shared = kept, true
			p := proxyOf(t, s)
			p.bucket("user=jane").demand = 1
			all = append(all, p)
		}
		defer end(all...)
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second)))
		pass(20*time.Second, all...)
		all[0].bucket("user=jane").demand = 300
		pass(5100*time.Millisecond, all...)
		if got := all[0].bucket("user=jane").rate(); got < 90 {
			t.Errorf("after one report of a demand of 300/s, beside 1/s: %v/s, want about 100/s", got)
		}
	})
}
