package sim

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// server decides with package limit and says what package signal reads.
type server struct {
	Server
	quotas []quota // Limit, and More
	crowds limit.Cardinality
	random *random
	crowd  crowd

	decisions []limit.Decision // of the quotas on one request
	cells     []*held
	asked     int64 // requests that arrived
	last      int64 // when the one before arrived
	served    int64 // to anyone, also to callers that had gone
	inside    int   // batches in work, and requests admitted that are not
	pools     []pool
	speed     float64 // how many times as long work takes
	level     int64   // what was left of Limit after the last decision
	main      int     // the quota that is the tightest at the start
	capacity  meter
	scaled    int64 // served when the auto-scaler last looked
	// announced is what refusals say to wait; zero: what the limit makes of it.
	announced time.Duration
}

// dry is the period of a bucket that never refills: as long as package limit
// can tell all its tokens apart, at most a token in 36 years. Check holds it to
// be longer than the run.
func dry(burst int64) time.Duration {
	const most = int64(36 * 365 * 24 * time.Hour / time.Microsecond)
	return time.Duration(min(most, 1<<58/max(burst, 1))) * time.Microsecond
}

func newServer(s *Scenario, r *random) *server {
	v := &server{Server: s.Server, random: r, crowd: s.crowd()}
	v.staff()
	v.Limit.Burst = refill(v.Limit, v.Limit.Count, v.Limit.Period).Burst
	rate := math.Inf(1)
	for i, q := range s.Server.quotas() {
		l := v.part(i, q.Limit)
		mean := v.crowd.cost(l.Max())
		v.quotas = append(v.quotas, quota{Quota: q, part: l, mean: mean, held: map[cell]*held{}})
		if x := v.crowd.requests(&q, perSecond(q.Limit, q.Limit.Count), mean); !q.Limit.Unlimited() && x < rate {
			v.main, rate = i, x
		}
	}
	v.decisions, v.cells = make([]limit.Decision, len(v.quotas)), make([]*held, len(v.quotas))
	q := &v.quotas[0]
	h := q.of(cell{})
	if v.Start.OK {
		v.begin(h)
	}
	v.level = q.take(v.clock(0), h, limit.Ask{}).Remaining
	v.capacity.begin(v, s)
	return v
}

// begin gives a cell of Limit the level of the start.
func (v *server) begin(h *held) {
	q := &v.quotas[0]
	if q.part.Kind != limit.TokenBucket || q.part.Unlimited() {
		return
	}
	level := min(v.Start.V, v.Limit.Burst) + v.Queue // the places to wait are free
	if v.Nodes > 1 {
		level /= int64(v.Nodes)
	}
	q.take(v.clock(0), h, limit.Ask{N: max(q.part.Burst-level, 0), Debt: true})
}

// clock is the server's time.
func (v *server) clock(now int64) time.Time { return when(now + int64(v.Phase)) }

// refill is l at another rate, with the same burst.
func refill(l limit.Limit, count int64, period time.Duration) limit.Limit {
	if l.Unlimited() {
		return l
	}
	if l.Burst == 0 {
		l.Burst = l.Count
	}
	l.Count, l.Period = count, period
	if count == 0 && l.Kind == limit.TokenBucket {
		l.Count, l.Period = 1, dry(l.Burst)
	}
	return l
}

// change sets another rate of Limit; what was used stays used.
func (v *server) change(now int64, c Change) {
	q := &v.quotas[0]
	q.change(v.clock(now), v.part(0, refill(v.Limit, c.Count, c.Period)))
	v.Limit.Count, v.Limit.Period = c.Count, c.Period
	q.Limit.Count, q.Limit.Period, q.mean = c.Count, c.Period, v.crowd.cost(q.part.Max())
	v.announced, v.Down = c.RetryAfter, c.Down
	v.capacity.change(v, now)
}

// rescale is the capacity that the auto-scaler wants, a second.
func (v *server) rescale() int64 {
	a := v.Scale
	rate := float64(v.served-v.scaled) / a.Every.Seconds() / a.Target
	v.scaled = v.served
	return min(max(int64(rate), a.Min), a.Max)
}

// decide asks all limits about a request, which has to pass them all, and
// takes of all of them or of none. It returns the index of the one that binds.
func (v *server) decide(now int64, f *flight) (binding int, ok bool) {
	node, at := 0, v.clock(now)
	if v.Nodes > 1 {
		node = int(v.random.unit() * float64(v.Nodes))
	}
	ok = true
	for i := range v.quotas {
		q := &v.quotas[i]
		v.cells[i] = v.cell(q, i, node, f)
		if len(v.quotas) > 1 {
			v.decisions[i] = q.take(at, v.cells[i], limit.Ask{})
			ok = ok && v.decisions[i].Remaining >= q.cost(f.cost)
		}
	}
	passed := ok
	for i := range v.quotas {
		q := &v.quotas[i]
		n := q.cost(f.cost)
		if passed || v.decisions[i].Remaining < n {
			v.decisions[i] = q.take(at, v.cells[i], limit.Ask{N: n})
			ok = ok && v.decisions[i].OK
		} else {
			v.decisions[i].OK = true // another one refuses
		}
	}
	v.level = v.decisions[0].Remaining
	return limit.Binding(v.decisions), ok
}

// cell is where a request is counted by a quota.
func (v *server) cell(q *quota, i, node int, f *flight) *held {
	c := q.cellOf(node, f.worker.number, f.key)
	h := q.find(c)
	if h == nil {
		if h = q.of(c); i == 0 && v.Start.OK {
			v.begin(h)
		}
	}
	return h
}

// delay is how long a request that has passed waits for its token.
func (v *server) delay() time.Duration {
	l := v.quotas[0].part
	if v.Queue == 0 || v.capacity.rate == 0 {
		return 0
	}
	burst := share(refill(v.Limit, v.Limit.Count, v.Limit.Period), v.Nodes).Burst
	free := time.Duration(float64(burst) * float64(l.Period) / float64(l.Count))
	return max(0, v.decisions[0].ResetAfter-free)
}

// answer decides on a request and notes what its answer will say. It reports
// whether there is work to do first, and after how long that may begin.
func (v *server) answer(now int64, f *flight) (admitted bool, after time.Duration) {
	v.asked++
	said := &f.said
	said.reset(len(v.quotas))
	ok, binding := true, 0
	switch {
	case v.full(f):
		ok, said.crowded = false, true
	case len(v.Gap) > 0:
		ok = v.apart(now)
		v.decisions[0] = limit.Decision{OK: ok}
	default:
		binding, ok = v.decide(now, f)
	}
	v.last = now
	said.verdict = v.verdict(said, ok)
	if v.tell(now, f, binding, ok); said.down {
		said.mute()
	}
	if !ok {
		return false, 0
	}
	if v.Service.AtOnce > 0 {
		v.inside++
	}
	return true, v.delay()
}

// verdict is how a request ends.
func (v *server) verdict(said *said, ok bool) pace.Verdict {
	said.plain = v.Plain
	if !ok {
		return pace.Throttled
	}
	bad := v.Errors + v.Final
	if bad+v.Down == 0 {
		return pace.Served
	}
	switch u := v.random.unit(); {
	case u < v.Errors && v.Plain:
		return pace.Throttled
	case u < bad:
		said.final = u >= v.Errors
		return pace.Failed
	case u < bad+v.Down:
		said.down, said.plain = true, true
		return pace.Throttled
	}
	return pace.Served
}

// apart reports whether the request before is longer ago than the gap.
func (v *server) apart(now int64) bool {
	return v.asked == 1 || now-v.last > int64(v.least(v.asked))
}

// least is the gap that the n-th request needs.
func (v *server) least(n int64) (least time.Duration) {
	for _, g := range v.Gap {
		if n >= g.From {
			least = g.Least
		}
	}
	return least
}
