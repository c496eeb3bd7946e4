package throttleenvoy

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleenvoy/internal/assign"
)

// verdict is what the rules say of a bucket.
type verdict uint8

const (
	limited verdict = iota + 1 // by a token bucket
	admits
	denies
)

// quotaUse is what one bucket has used since its last report, and what is known of its
// limits then.
type quotaUse struct {
	id              *rlqspb.BucketId
	name            string // of the bucket: domain and entries
	entries         []rules.Pair
	allowed, denied int64
	over            time.Duration // as the proxy says
	peeks           bool          // the Store is asked although nothing was used

	verdict   verdict
	asks      []limit.Ask      // of a use of one
	decisions []limit.Decision // after the charge; nil: none
	demands   []demandCount    // of all processes, for each ask; nil: not counted
	failed    bool             // the Store could not decide
}

// useOf reads a report; ok is false if it is malformed.
func useOf(domain string, in *rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage) (u quotaUse, ok bool) {
	id := in.GetBucketId().GetBucket()
	if len(id) == 0 || len(id) > MaxEntries {
		return u, false
	}
	u = quotaUse{
		id: in.GetBucketId(), allowed: clamped(in.GetNumRequestsAllowed()), denied: clamped(in.GetNumRequestsDenied()),
		over: max(in.GetTimeElapsed().AsDuration(), 0),
	}
	const most = 1 << 40 // in five seconds: nobody has so many
	u.allowed, u.denied = min(u.allowed, most), min(u.denied, most)
	size := 0
	for key, value := range id {
		u.entries = append(u.entries, rules.Pair{Key: key, Value: value})
		size += len(key) + len(value)
	}
	if size > MaxBucketID {
		return u, false
	}
	slices.SortFunc(u.entries, func(a, b rules.Pair) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	u.name = (&rules.Request{Descriptor: append([]rules.Pair{{Key: domain}}, u.entries...)}).DescriptorText()
	return u, true
}

// charge asks the rules about all uses, by one version, and charges them to the Store.
func (s *QuotaService) charge(ctx context.Context, domain string, all []quotaUse, now time.Time) {
	var version *rules.Compiled
	if s.Rules != nil {
		version = s.Rules.Load()
	}
	var next atomic.Int64
	var broke atomic.Pointer[any] // what a function of the user's panicked with
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				broke.CompareAndSwap(nil, &p)
			}
		}()
		for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
			s.judge(ctx, version, domain, &all[i], now)
			s.take(ctx, &all[i], now)
		}
	}
	var others sync.WaitGroup
	for range min(takers, len(all)) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := broke.Load(); p != nil { // in the goroutine of the stream, whose server may recover
		panic(*p)
	}
}

// judge asks the rules which limits a use is subject to.
func (s *QuotaService) judge(ctx context.Context, version *rules.Compiled, domain string, u *quotaUse, now time.Time) {
	u.verdict = admits
	q := rules.Request{Now: now, Domain: domain, Descriptor: u.entries, Cost: func(string) int64 { return 1 }, Override: s.Override}
	q.Address = q.EntryAddress()
	first := true
	answer, err := version.Decide(ctx, store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if first { // shadow rules are asked after the others
			u.asks, first = slices.Clone(a), false
		}
		for i := range d {
			d[i] = limit.Decision{OK: true, N: a[i].N}
		}
		return true, nil
	}), q)
	switch killed := version.Killed(now); {
	case err != nil || killed || answer.Reason == rules.Allowed:
	case !answer.OK:
		u.verdict, u.asks = denies, nil
	case answer.Reason != rules.Within:
		u.asks = nil // of shadow rules
	case slices.ContainsFunc(u.asks, func(a limit.Ask) bool { return a.Limit.Max() == 0 }):
		u.verdict = denies
	default:
		u.verdict = limited
	}
}

// take charges a use to the Store, or looks at what is left.
func (s *QuotaService) take(ctx context.Context, u *quotaUse, now time.Time) {
	if len(u.asks) == 0 || !u.peeks && u.allowed+u.denied == 0 {
		return
	}
	if time.Now().UnixNano() < s.retry.Load() {
		u.failed = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	asks, decisions := slices.Clone(u.asks), make([]limit.Decision, len(u.asks))
	for i := range asks {
		asks[i].N = times(u.asks[i].N, u.allowed)
		asks[i].Debt = asks[i].N > 0
	}
	_, err := s.own.Take(ctx, asks, decisions)
	if err == nil && s.Shared {
		u.demands, err = s.count(ctx, u, now)
	}
	if err != nil {
		u.failed = true
		if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded {
			s.retry.Store(time.Now().Add(storeTimeout).UnixNano())
		}
		return
	}
	u.decisions = decisions
}

// demandWindow is the time in which each bucket is reported twice. The demand of all processes is
// counted in windows of it, and that of the last whole one is compared: at any time that has two
// reports of each bucket, whenever in the window they come.
const demandWindow = 10 * time.Second

// demandKept counts the demand in a window until the one after it has ended.
var demandKept = limit.Limit{Kind: limit.FirstHitWindow, Count: 1 << 40, Period: 25 * time.Second}

// demandCount is a demand counted in the current window, and in the one before.
type demandCount struct{ window, now, before int64 }

// add counts n more, in a window.
func (c *demandCount) add(window, n int64) {
	switch {
	case c.window+1 == window:
		c.before, c.now = c.now, 0
	case c.window != window:
		c.before, c.now = 0, 0
	}
	c.window, c.now = window, c.now+n
}

// split returns the demands of this process and of others, c being that of all: those of the
// window before, as the current one is not whole. Where it has much more already, those of it.
func (c demandCount) split(own demandCount, now time.Time) (mine, others assign.Rate) {
	all, part, over := c.before, own.before, demandWindow
	if c.now > 2*c.before {
		all, part, over = c.now, own.now, max(now.Sub(time.Unix(0, c.window*int64(demandWindow))), demandWindow/2)
	}
	return assign.RateOf(part, over), assign.RateOf(max(all-part, 0), over)
}

// count adds the demand of a use to that of all processes, and returns that for each limit.
func (s *QuotaService) count(ctx context.Context, u *quotaUse, now time.Time) ([]demandCount, error) {
	all := make([]demandCount, len(u.asks))
	window := now.UnixNano() / int64(demandWindow)
	for i := range u.asks {
		counted, err := s.counted(ctx, u.asks[i].Key, window, u.demand(i))
		if err != nil {
			return nil, err
		}
		before, err := s.counted(ctx, u.asks[i].Key, window-1, 0)
		if err != nil {
			return nil, err
		}
		all[i] = demandCount{window, counted, before}
	}
	return all, nil
}

// counted adds n to the demand for a key in a window, and returns it. Four windows take turns.
func (s *QuotaService) counted(ctx context.Context, key string, window, n int64) (int64, error) {
	var d [1]limit.Decision
	key = "+demand/" + strconv.FormatInt(window%4, 10) + "/" + key
	_, err := s.own.Take(ctx, []limit.Ask{{Key: key, Limit: demandKept, N: n, Debt: n > 0}}, d[:])
	return demandKept.Count - d[0].Remaining, err
}

// demand is what counts as demand for the i-th limit.
func (u *quotaUse) demand(i int) int64 {
	return assign.Rated(u.asks[i].Limit).Demand(times(u.asks[i].N, u.allowed+u.denied))
}

// times is cost × n, as far as it goes.
func times(cost, n int64) int64 {
	if cost > 0 && n > math.MaxInt64/cost {
		return math.MaxInt64
	}
	return max(cost*n, 0)
}
