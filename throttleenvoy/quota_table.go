package throttleenvoy

import (
	"cmp"
	"slices"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleenvoy/internal/assign"
)

// quotaTable has what proxies were told. The mutex of its service guards it, and all that
// is in it.
type quotaTable struct {
	streams, buckets int
	limits           map[string]*quotaLimit    // by the key in the Store
	lost             map[string][]*quotaBucket // by name
	expiring         []*quotaBucket            // all that are lost, the oldest first
	dirty            []*quotaLimit             // to be divided in this apply
	stats            QuotaStats
}

type quotaBounds struct {
	buckets int
	idle    time.Duration
}

// quotaStream is one stream. Only its own goroutine changes domain and buckets.
type quotaStream struct {
	envoy   string // the address that it comes from
	domain  string
	buckets map[string]*quotaBucket // by name
	wake    chan struct{}           // has a value if there is something to tell
	tell    []*quotaBucket          // what is to be told
	swept   time.Time               // when it was looked for buckets that are reported no more
}

// quotaBucket is a bucket of one stream.
type quotaBucket struct {
	stream     *quotaStream // nil: lost
	name       string
	id         *rlqspb.BucketId
	claim      assign.Claim
	parts      []quotaPart
	seen, used time.Time // last reported, and last with requests
	counted    quotaCount

	ruled   verdict       // what the rules said last
	verdict verdict       // told last; zero: nothing
	since   time.Time     // when it was told last
	told    assign.Bucket // if limited
	sent    assign.Bucket // the one before
	unsure  bool          // the proxy may have an assignment that is not known here
	abandon bool          // it is to be forgotten
	waits   bool          // in tell of its stream
	gone    bool          // it is forgotten
}

// quotaPart is a limit that a bucket is subject to.
type quotaPart struct {
	*quotaLimit
	cost         int64       // of a request
	target, next assign.Rate // set by divide, in events of the limit
	kept         bool        // next is what it was told
}

// quotaLimit is a limit of one key, and the buckets that share it.
type quotaLimit struct {
	key          string
	limit        limit.Limit
	supply       assign.Supply
	away         bool          // the Store failed last
	part         assign.Supply // of this process
	mine, others assign.Rate   // what this process demands, and what others do
	counted      demandCount   // mine, as the Store counts that of all
	buckets      []*quotaBucket
	dirty        bool // it is to be divided
}

// uses reads what is reported.
func (t *quotaTable) uses(stream *quotaStream, all []*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage, now time.Time) []quotaUse {
	uses := make([]quotaUse, 0, len(all))
	for _, in := range all {
		u, ok := useOf(stream.domain, in)
		if !ok {
			t.stats.Refused++
			continue
		}
		b := stream.buckets[u.name]
		u.peeks = b == nil || b.due(now)
		t.stats.Allowed += u.allowed
		t.stats.Denied += u.denied
		uses = append(uses, u)
	}
	return uses
}

// due reports whether a bucket is to be told something, if only the same once more.
func (b *quotaBucket) due(now time.Time) bool {
	return b.verdict == 0 || now.Sub(b.since) >= assign.TTL/2
}

// apply divides the limits of what was reported, and decides what is to be told.
func (t *quotaTable) apply(stream *quotaStream, uses []quotaUse, now time.Time, most quotaBounds) {
	t.expire(now)
	t.dirty = t.dirty[:0]
	for i := range uses {
		u := &uses[i]
		b := t.bucket(stream, u, now, most)
		if b == nil || !t.subject(b, u, now) {
			t.stats.Refused++
			continue
		}
		b.reported(u, now)
		if u.failed {
			t.stats.StoreErrors++
		}
		if now.Sub(b.used) >= most.idle {
			b.abandon = true
			b.wake()
		}
	}
	for _, l := range t.dirty {
		l.divide(now)
	}
	for i := range uses {
		if b := stream.buckets[uses[i].name]; b != nil && !b.abandon {
			t.conclude(b, uses[i].verdict, b.due(now), now)
		}
	}
	for _, l := range t.dirty {
		for _, b := range l.buckets {
			if b.stream != nil && b.verdict == limited && b.seen != now {
				t.conclude(b, limited, false, now)
			}
		}
	}
	for _, l := range t.dirty {
		l.dirty = false
	}
	t.sweep(stream, now, most.idle)
}

// reported takes note of a report.
func (b *quotaBucket) reported(u *quotaUse, now time.Time) {
	b.seen = now
	b.claim.Report(now, u.allowed+u.denied, u.over)
	b.counted.report(now, u.allowed, u.denied, u.over)
	if u.allowed+u.denied > 0 || b.used.IsZero() {
		b.used = now
	}
}

// bucket returns the bucket that a report is about. One that is new to the stream, and not to its proxy,
// goes on with what it was told on another stream. It is nil if there is no room.
func (t *quotaTable) bucket(stream *quotaStream, u *quotaUse, now time.Time, most quotaBounds) *quotaBucket {
	if b := stream.buckets[u.name]; b != nil {
		return b
	}
	if t.buckets >= most.buckets {
		return nil
	}
	b := &quotaBucket{stream: stream, name: u.name, id: u.id, seen: now}
	t.adopt(b, u.over >= time.Second, now)
	stream.buckets[u.name] = b
	t.buckets++
	return b
}

// adopt lets a bucket that its proxy has had before go on with what a lost stream was told. Which
// of several that was is not known: what remains must cover what the others may hold.
func (t *quotaTable) adopt(b *quotaBucket, before bool, now time.Time) {
	lost := t.lost[b.name]
	b.unsure = before && len(lost) != 1 || !before && len(lost) > 0
	if before && len(lost) > 0 {
		old := slices.MinFunc(lost, func(a, b *quotaBucket) int { return cmp.Compare(a.claim.Held(now), b.claim.Held(now)) })
		b.unsure = b.unsure || old.unsure
		b.claim.Adopt(old.claim)
		t.remove(old)
	}
	for _, other := range t.lost[b.name] {
		other.unsure = true
	}
}

// subject makes a bucket subject to the limits that the rules have for it. It is false, and
// the bucket is gone, if too many share one of them.
func (t *quotaTable) subject(b *quotaBucket, u *quotaUse, now time.Time) bool {
	changed := u.verdict != b.ruled
	b.ruled = u.verdict
	asks := u.asks
	if u.verdict != limited {
		asks = nil
	}
	if !slices.EqualFunc(b.parts, asks, func(p quotaPart, a limit.Ask) bool { return p.key == a.Key && p.cost == a.N }) {
		changed = true
		t.leave(b)
		for _, a := range asks {
			if !t.join(b, a) {
				t.remove(b)
				return false
			}
		}
	}
	for i := range b.parts {
		l := b.parts[i].quotaLimit
		if l.learn(u, i, now) || changed || u.peeks || u.allowed+u.denied > 0 {
			t.touch(l)
		}
	}
	return true
}

// touch says that a limit is to be divided.
func (t *quotaTable) touch(l *quotaLimit) {
	if !l.dirty {
		l.dirty = true
		t.dirty = append(t.dirty, l)
	}
}

// join makes a bucket share a limit, if there is room.
func (t *quotaTable) join(b *quotaBucket, a limit.Ask) bool {
	l := t.limits[a.Key]
	if l == nil {
		l = &quotaLimit{key: a.Key, limit: a.Limit, supply: assign.Rated(a.Limit)}
		if t.limits == nil {
			t.limits = map[string]*quotaLimit{}
		}
		t.limits[a.Key] = l
	}
	if len(l.buckets) >= MaxQuotaShare {
		return false
	}
	l.buckets = append(l.buckets, b)
	b.parts = append(b.parts, quotaPart{quotaLimit: l, cost: max(a.N, 1)})
	return true
}

// leave ends what a bucket shares.
func (t *quotaTable) leave(b *quotaBucket) {
	for _, p := range b.parts {
		if i := slices.Index(p.buckets, b); i >= 0 {
			p.buckets = slices.Delete(p.buckets, i, i+1)
		}
		if len(p.buckets) == 0 {
			delete(t.limits, p.key)
		}
	}
	b.parts = nil
}

// remove forgets a bucket.
func (t *quotaTable) remove(b *quotaBucket) {
	t.leave(b)
	if b.gone {
		return
	}
	b.gone = true
	t.buckets--
	if b.stream != nil {
		delete(b.stream.buckets, b.name)
		return
	}
	lost := t.lost[b.name]
	if i := slices.Index(lost, b); i >= 0 {
		lost = slices.Delete(lost, i, i+1)
	}
	if t.lost[b.name] = lost; len(lost) == 0 {
		delete(t.lost, b.name)
	}
}

// lose keeps what the proxy of a stream may still use.
func (t *quotaTable) lose(stream *quotaStream, now time.Time) {
	for name, b := range stream.buckets {
		if b.claim.Over(now) {
			t.remove(b)
			continue
		}
		if t.lost == nil {
			t.lost = map[string][]*quotaBucket{}
		}
		b.claim.Lost, b.stream = true, nil
		t.lost[name] = append(t.lost[name], b)
		t.expiring = append(t.expiring, b)
	}
}

// expire forgets what has expired of lost streams.
func (t *quotaTable) expire(now time.Time) {
	for len(t.expiring) > 0 && (t.expiring[0].gone || t.expiring[0].claim.Over(now)) {
		t.remove(t.expiring[0])
		t.expiring[0] = nil
		t.expiring = t.expiring[1:]
	}
}

// sweep forgets buckets that a proxy reports no more, as it has forgotten them.
func (t *quotaTable) sweep(stream *quotaStream, now time.Time, idle time.Duration) {
	if now.Sub(stream.swept) < idle/4 {
		return
	}
	stream.swept = now
	for _, b := range stream.buckets {
		if now.Sub(b.seen) >= idle {
			t.remove(b)
		}
	}
}
