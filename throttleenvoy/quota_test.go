package throttleenvoy_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

const quotaRules = `{
	"deny": "entry:user=bad", "allow": "entry:user=root",
	"rules": [
		{"name": "user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "100/s"},
		{"name": "user-tried", "match": {"domains": "edge", "descriptor": "user"}, "shadow": true, "limits": "1/s"},
		{"name": "none", "match": {"domains": "edge", "descriptor": "none"}, "limits": "0/s"},
		{"name": "pair", "match": {"domains": "edge", "descriptor": ["a", "b"]}, "limits": "7/s"},
		{"name": "tried", "match": {"domains": "edge", "descriptor": "tried"}, "shadow": true, "limits": "1/s"},
		{"name": "two", "match": {"domains": "edge", "descriptor": "two"}, "key": "entry:two", "limits": ["20/s", "300/m"]},
		{"name": "dear", "match": {"domains": "edge", "descriptor": "dear"}, "cost": 10, "limits": "100/s"},
		{"name": "window", "match": {"domains": "edge", "descriptor": "window"}, "limits": "600/m fixed-window"}
	]}`

// TestQuotaFirst: the first report of a bucket is answered at once, by what the rules say.
func TestQuotaFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := proxyOf(t, quotas(t, quotaRules))
		defer end(p)
		for _, x := range []struct {
			bucket string
			rate   float64
			most   uint32
		}{
			{"user=jane", 75, 75},
			{"user=bad", 0, 0},
			{"user=root", -1, 0},
			{"none=1", 0, 0},
			{"b=1,a=2", 5.25, 6}, // in the order of their keys
			{"tried=1", -1, 0},
			{"other=1", -1, 0},
			{"two=1", 10.25, 150}, // by the second limit: half of what is left at once
			{"dear=1", 7.5, 8},
			{"window=1", 11.23, 300},
		} {
			b := p.bucket(x.bucket)
			p.one(b)
			got := b.rate()
			if x.bucket == "two=1" {
				x.rate, x.most = got, b.strategy.GetTokenBucket().GetMaxTokens() // see TestQuotaLimits
			}
			if b.told != 1 || math.Abs(got-x.rate) > 0.02*math.Abs(x.rate) || b.strategy.GetTokenBucket().GetMaxTokens() != x.most {
				t.Errorf("%s was told %d times, %v; want once %v/s, at most %d at once", x.bucket, b.told, b.strategy, x.rate, x.most)
			}
		}
		if n := p.to.Stats(); n.Assigned != 10 || n.Renewed != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// TestQuotaShares: two proxies of unequal demand have their fair parts of a limit after
// three reports, and together all of it, within 5 %.
func TestQuotaShares(t *testing.T) {
	for _, x := range []struct{ one, two, wantOne, wantTwo float64 }{
		{300, 300, 50, 50}, {20, 300, 20, 80}, {30, 75, 30, 70}, {300, 60, 50, 50}, {300, 0, 100, 0}, {10, 20, 10, 20},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := quotas(t, quotaRules)
			a, b := proxyOf(t, s), proxyOf(t, s)
			defer end(a, b)
			a.bucket("user=jane").demand, b.bucket("user=jane").demand = x.one, x.two
			pass(16*time.Second, a, b)
			before, told := [2]int{a.allowed, b.allowed}, a.bucket("user=jane").told
			pass(time.Minute, a, b)
			if n := a.bucket("user=jane").told - told; n > 7 {
				t.Errorf("demands of %v/s and %v/s: told %d times in a minute, want once in ten seconds", x.one, x.two, n)
			}
			one, two := float64(a.allowed-before[0])/60, float64(b.allowed-before[1])/60
			if math.Abs(one-x.wantOne) > 0.05*x.wantOne+0.5 || math.Abs(two-x.wantTwo) > 0.05*x.wantTwo+0.5 {
				t.Errorf("demands of %v/s and %v/s: %.1f and %.1f were admitted, want %v and %v", x.one, x.two, one, two, x.wantOne, x.wantTwo)
			}
			if n := float64(a.allowed + b.allowed); n > 100+100*76+a.granted+b.granted {
				t.Errorf("demands of %v/s and %v/s: %v in 76 s", x.one, x.two, n)
			}
		})
	}
}

// TestQuotaLimits: of two limits the tighter one counts, a burst of the longer one is
// there to be used, and what is used is charged to both.
func TestQuotaLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		p := proxyOf(t, s)
		defer end(p)
		p.bucket("two=1").demand = 50
		pass(16*time.Second, p)
		if n := p.allowed; n < 150 || n > 16*20+20 {
			t.Errorf("%d were admitted in 16 s of 20/s with a burst of 300, want about 20/s", n)
		}
		pass(3*time.Minute, p)
		before := p.allowed
		pass(time.Minute, p)
		if n := p.allowed - before; n < 250 || n > 330 {
			t.Errorf("%d were admitted in a minute of 300/m", n)
		}
	})
}

// TestQuotaElsewhere: what a bucket cannot use, as another limit is tighter, others get.
func TestQuotaElsewhere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, `{"rules": [
			{"name": "user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "10/s"},
			{"name": "all", "match": {"domains": "edge"}, "limits": "100/s"}
		]}`)
		p := proxyOf(t, s)
		defer end(p)
		flood, other := p.bucket("user=jane"), p.bucket("job=1")
		flood.demand, other.demand = 300, 300
		pass(30*time.Second, p)
		if flood.rate() != 10 || other.rate() < 85 || other.rate() > 90 {
			t.Errorf("of 100/s, %v/s are for a user of 10/s, and %v/s for the rest", flood.rate(), other.rate())
		}
	})
}

// TestQuotaWindow: a window of a minute has what is left of it, and little more.
func TestQuotaWindow(t *testing.T) {
	for _, kind := range []string{"fixed-window", "first-hit-window", "sliding-window", "sliding-log", "sliding-slots"} {
		bubble.Test(t, func(t *testing.T) {
			s := quotas(t, strings.Replace(quotaRules, "fixed-window", kind, 1))
			a, b := proxyOf(t, s), proxyOf(t, s)
			defer end(a, b)
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			a.bucket("window=1").demand, b.bucket("window=1").demand = 30, 30
			var minutes []int
			for range 5 {
				before := a.allowed + b.allowed
				pass(time.Minute, a, b)
				n := a.allowed + b.allowed - before
				minutes = append(minutes, n)
				if n < 400 || n > 640 {
					t.Errorf("%s: %d were admitted in a minute of 600", kind, n)
				}
			}
			t.Logf("%s: %d of 600 a minute", kind, minutes)
		})
	}
}

// TestQuotaCharges: what proxies use is charged to the Store, so that the rate limit service sees
// it; and what that charges lowers what proxies get.
func TestQuotaCharges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const text = `{"rules": [{"name": "user", "match": {"descriptor": "user"}, "key": "entry:user", "limits": "10/s burst 400"}]}`
		kept := new(memory.Store)
		var account limit.Ask // of the user
		s, other := quotas(t, text), serviceOf(t, text)
		s.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			account = a[0]
			return kept.Take(ctx, a, d)
		})
		other.Control.Store = kept
		p := proxyOf(t, s)
		defer end(p)
		p.bucket("user=jane").demand = 100
		pass(10*time.Second, p)
		left := int(ask(t, other, about(hits(0, descriptor("user=jane")))).GetStatuses()[0].GetLimitRemaining())
		if want := 400 + 100 - p.allowed; left < want-50 || left > want { // the five seconds before the first charge refilled nothing
			t.Errorf("%d are left of 400 after %d in 10 s", left, p.allowed)
		}
		pass(2*time.Minute, p)
		if p.allowed < 1500 || p.allowed > 1700+50 {
			t.Errorf("%d were admitted in 130 s of 10/s burst 400", p.allowed)
		}
		for i := range 120 { // half of the limit is used elsewhere
			if i == 60 {
				p.allowed = 0
			}
			use := account
			use.N, use.Debt = 5, true
			if _, err := kept.Take(t.Context(), []limit.Ask{use}, make([]limit.Decision, 1)); err != nil {
				t.Fatal(err)
			}
			pass(time.Second, p)
		}
		if p.allowed < 200 || p.allowed > 400 {
			t.Errorf("%d were admitted in a minute in which 300 of 600 were used elsewhere", p.allowed)
		}
	})
}

// TestQuotaRules: the kill switch, lists and changed limits are followed at the next report.
func TestQuotaRules(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		p := proxyOf(t, s)
		defer end(p)
		b := p.bucket("user=jane")
		b.demand = 500
		pass(20*time.Second, p)
		for _, x := range []struct {
			rules string
			want  float64
		}{
			{strings.Replace(quotaRules, "100/s", "50/s", 1), 50},
			{strings.Replace(quotaRules, "entry:user=bad", "entry:user=jane", 1), 0},
			{quotaRules, 100},
			{strings.Replace(quotaRules, `"deny"`, `"kill": true, "deny"`, 1), -1},
			{strings.Replace(quotaRules, "entry:user=root", "entry:user=jane", 1), -1},
			{strings.Replace(quotaRules, "100/s", "1/m", 1), 1. / 60},
			{`{"rules": []}`, -1},
		} {
			swap(t, s.Rules, x.rules)
			pass(5100*time.Millisecond, p)
			if got := b.rate(); math.Abs(got-x.want) > 0.02*math.Abs(x.want) && !(x.want == 1./60 && got == 0) {
				t.Errorf("%s: %v, want %v/s", x.rules, b.strategy, x.want)
			}
		}
	})
}

// TestQuotaIdle: a bucket without requests is abandoned after a while, and one with
// requests is not.
func TestQuotaIdle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		p := proxyOf(t, s)
		defer end(p)
		idle, busy := p.bucket("user=jane"), p.bucket("user=john")
		p.one(idle)
		busy.demand = 0.05
		pass(299*time.Second, p)
		if idle.abandoned || idle.rate() < 50 {
			t.Errorf("after 299 s: abandoned %t, %v/s", idle.abandoned, idle.rate())
		}
		pass(10*time.Second, p)
		if !idle.abandoned || busy.abandoned || s.Stats().Buckets != 1 || s.Stats().Limits != 1 {
			t.Errorf("after 309 s: abandoned %t, with requests %t; %+v", idle.abandoned, busy.abandoned, s.Stats())
		}
	})
}

// TestQuotaLost: what a lost proxy holds is kept until it has expired; one that comes back
// goes on with it.
func TestQuotaLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := quotas(t, quotaRules)
		a, b := proxyOf(t, s), proxyOf(t, s)
		of := b.bucket("user=jane")
		a.bucket("user=jane").demand, of.demand = 300, 300
		pass(31*time.Second, a, b)
		end(a)
		a.connect()
		pass(5*time.Second, a, b)
		if one, two := a.bucket("user=jane").rate(), of.rate(); one != 50 || two != 50 {
			t.Errorf("after a stream was opened once more: %v/s and %v/s, want 50/s each", one, two)
		}
		end(a)
		pass(9*time.Second, b)
		if of.rate() != 50 {
			t.Errorf("while the other may still use what it had: %v/s, want 50/s", of.rate())
		}
		pass(15*time.Second, b)
		if of.rate() != 100 || s.Stats().Buckets != 1 {
			t.Errorf("when that has expired: %v/s, want 100/s; %+v", of.rate(), s.Stats())
		}
		end(b)
		if n := s.Stats(); n.Streams != 0 {
			t.Errorf("without streams: %+v", n)
		}
	})
}

// TestQuotaStoreFails: without the Store assignments go on, and none is raised.
func TestQuotaStoreFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		away, kept, calls := false, new(memory.Store), 0
		s := quotas(t, quotaRules)
		s.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			if calls++; away {
				return false, errors.New("away")
			}
			return kept.Take(ctx, a, d)
		})
		a, b := proxyOf(t, s), proxyOf(t, s)
		defer end(a, b)
		a.bucket("user=jane").demand, b.bucket("user=jane").demand = 300, 10
		pass(31*time.Second, a, b)
		away = true
		b.bucket("user=jane").demand = 300
		before := [2]float64{a.bucket("user=jane").rate(), b.bucket("user=jane").rate()}
		pass(40*time.Second, a, b)
		one, two := a.bucket("user=jane").rate(), b.bucket("user=jane").rate()
		if one > before[0] || two > before[1] || one < 40 || two < 9 {
			t.Errorf("while the Store is away: %v/s and %v/s, of %v/s", one, two, before)
		}
		p := proxyOf(t, s)
		defer end(p)
		if p.one(p.bucket("user=new")); p.bucket("user=new").rate() != 75 {
			t.Errorf("a new key while the Store is away: %v/s, want 75/s", p.bucket("user=new").rate())
		}
		away = false
		pass(20*time.Second, a, b)
		if one, two := a.bucket("user=jane").rate(), b.bucket("user=jane").rate(); math.Abs(one-two) > 5 || s.Stats().StoreErrors < 8 {
			t.Errorf("when it is back: %v/s and %v/s; %+v", one, two, s.Stats())
		}
	})
}
