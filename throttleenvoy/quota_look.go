package throttleenvoy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleenvoy/internal/assign"
)

// QuotaUse says how much of one limit a QuotaService has assigned, and how much of that is used.
// All rates are in events of the limit a second.
type QuotaUse struct {
	// Key is the key in the Store: RULE/N/PART=VALUE and so on, see package rules.
	Key string
	// Limit is the limit.
	Limit limit.Limit
	// Supply is the rate that this process has to divide now: the limit's own, more while some
	// of it is left, less while some is owed, and a part of it where processes share it.
	Supply float64
	// Assigned is the sum of what Envoys may use, and Allowed and Denied the requests that
	// they reported last. What two reports within a second have is not known yet: zero.
	Assigned, Allowed, Denied float64
	// Away reports that the Store failed last.
	Away bool
	// Buckets is the number of buckets that share the limit, each Envoy counted by itself.
	Buckets int
	// Shares are those with the most requests, as many as were asked for.
	Shares []QuotaShare
}

// QuotaShare is the part of one Envoy in a limit, by one of its buckets.
type QuotaShare struct {
	// Envoy is the address that its stream comes from, with the port, which tells apart those
	// behind one address. Empty if the stream has ended, and what was assigned has not.
	Envoy string
	// Rate is the rate of its token bucket, zero if all are denied, and Burst how many events
	// may come at once.
	Rate  float64
	Burst int64
	// Allowed and Denied are the requests that it reported last, see QuotaUse.
	Allowed, Denied float64
	// Reported is when it reported last, and Expires when the assignment ends unless it is renewed.
	Reported, Expires time.Time
}

// Uses returns the limits with the most requests, at most so many, and of each at most so many
// shares; those with as many requests are in the order of their keys. It looks at all buckets, so it
// is for people, not for each request.
func (s *QuotaService) Uses(limits, shares int) []QuotaUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var all []QuotaUse
	for _, l := range s.table.limits {
		all = append(all, l.use(now, 0))
	}
	slices.SortFunc(all, func(a, b QuotaUse) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), cmp.Compare(a.Key, b.Key))
	})
	all = slices.Clip(all[:min(len(all), max(limits, 0))])
	for i := range all {
		all[i] = s.table.limits[all[i].Key].use(now, shares)
	}
	return all
}

// use is the limit as it is now, with at most so many shares.
func (l *quotaLimit) use(now time.Time, shares int) QuotaUse {
	u := QuotaUse{Key: l.key, Limit: l.limit, Supply: perSecond(l.part.Rate), Away: l.away, Buckets: len(l.buckets)}
	for _, b := range l.buckets {
		one := b.share(now, b.partOf(l).cost)
		u.Assigned, u.Allowed, u.Denied = u.Assigned+one.Rate, u.Allowed+one.Allowed, u.Denied+one.Denied
		if shares > 0 {
			u.Shares = append(u.Shares, one)
		}
	}
	slices.SortFunc(u.Shares, func(a, b QuotaShare) int {
		return cmp.Or(cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), cmp.Compare(a.Envoy, b.Envoy))
	})
	u.Shares = slices.Clip(u.Shares[:min(len(u.Shares), shares)])
	return u
}

// share is the bucket as it is now, each of whose requests costs so much.
func (b *quotaBucket) share(now time.Time, cost int64) QuotaShare {
	told := b.claim.Told(now)
	s := QuotaShare{
		Rate: perSecond(told.Rate().Times(cost)), Burst: times(cost, int64(told.Max)), Reported: b.seen, Expires: b.since.Add(assign.TTL),
		Allowed: b.counted.allowed * float64(cost), Denied: b.counted.denied * float64(cost),
	}
	if b.stream != nil {
		s.Envoy = b.stream.envoy
	}
	return s
}

// quotaCount is the requests of a bucket a second, over a second or more.
type quotaCount struct {
	allowed, denied float64
	since           time.Time // of what follows
	more, less      int64     // allowed and denied since then
}

// report counts the requests since the last report; over is how long that was, as the proxy
// says, which counts only in the first one.
func (c *quotaCount) report(now time.Time, allowed, denied int64, over time.Duration) {
	if c.since.IsZero() {
		c.since = now.Add(-over)
	}
	c.more, c.less = c.more+allowed, c.less+denied
	if took := now.Sub(c.since); took >= time.Second {
		*c = quotaCount{allowed: float64(c.more) / took.Seconds(), denied: float64(c.less) / took.Seconds(), since: now}
	}
}

func perSecond(r assign.Rate) float64 { return float64(r) / float64(assign.PerSecond) }

// envoyOf is the address that a stream comes from; empty if it is not known.
func envoyOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}
