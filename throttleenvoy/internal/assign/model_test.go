package assign

import (
	"math/rand/v2"
	"testing"
	"time"
)

// proxy is a model of Envoy 1.40: a bucket that begins full and is refilled
// continuously, reports every five seconds, and messages that take a while.
type proxy struct {
	claim     Claim
	told      Bucket    // in use
	until     time.Time // it expires
	tokens    float64
	demand    float64 // requests a second
	due       time.Time
	requests  int64
	mail      []letter // assignments on their way
	reports   []letter // and reports
	lost      bool     // its stream is, for good
	connected bool     // it has reported
}

type letter struct {
	at time.Time
	Bucket
	n int64
}

// model is a service and its proxies, with a limit that does not change.
type model struct {
	t       *testing.T
	r       *rand.Rand
	rate    Rate
	burst   int64
	now     time.Time
	all     []*proxy
	allowed float64
	granted float64 // by buckets that were replaced
}

func (m *model) late() time.Time { return m.now.Add(time.Duration(m.r.Int64N(int64(settle / 2)))) }

// step lets 50 ms pass.
func (m *model) step() {
	const step = 50 * time.Millisecond
	m.now = m.now.Add(step)
	var held Rate
	for _, p := range m.all {
		for len(p.mail) > 0 && !m.now.Before(p.mail[0].at) {
			m.receive(p, p.mail[0].Bucket)
			p.mail = p.mail[1:]
		}
		alive := m.now.Before(p.until)
		if alive {
			held += p.told.Rate()
			p.tokens = min(p.tokens+float64(p.told.Fill)/float64(p.told.Every)*step.Seconds(), float64(p.told.Max))
		}
		for p.demand > 0 && m.r.Float64() < p.demand*step.Seconds()/10 { // ten at a time
			p.requests += 10
			if n := min(p.tokens, 10); alive {
				p.tokens -= n
				m.allowed += n
			}
		}
		if !p.lost && !m.now.Before(p.due) {
			p.reports = append(p.reports, letter{at: m.late(), n: p.requests})
			p.requests, p.due, p.connected = 0, m.now.Add(5*time.Second), true
		}
		if len(p.reports) > 0 && !m.now.Before(p.reports[0].at) {
			p.claim.Report(m.now, p.reports[0].n, 0)
			p.reports = p.reports[1:]
			m.decide(p)
		}
	}
	if held > m.rate {
		m.t.Fatalf("at %v proxies hold %d of a limit of %d", m.now, held, m.rate)
	}
}

// receive is what Envoy does with an assignment.
func (m *model) receive(p *proxy, b Bucket) {
	if b.Max != p.told.Max || b.Fill != p.told.Fill || !m.now.Before(p.until) {
		p.tokens = float64(b.Max)
		m.granted += p.tokens
	} else if b.Every != p.told.Every {
		m.t.Fatalf("Envoy does not see that %+v is another than %+v", b, p.told)
	}
	p.told, p.until = b, m.now.Add(TTL)
}

// decide is what the service does after a report of p.
func (m *model) decide(p *proxy) {
	var shares []Share
	var of []*proxy
	for _, q := range m.all {
		if q.connected && !(q.lost && q.claim.Over(m.now)) {
			shares, of = append(shares, q.claim.Share(m.now)), append(of, q)
		}
	}
	Divide(m.rate, true, shares)
	for i, q := range of {
		s := shares[i]
		if s.Lost || q != p && (s.Next == s.Told || !s.Has) || q == p && s.Next == s.Told && s.Has && !q.claim.Due(m.now) {
			continue
		}
		b := q.claim.Told(m.now)
		if !s.Has || s.Next != s.Told {
			b = BucketOf(s.Next, m.burst/int64(len(of)), m.burst)
		}
		at := m.late()
		if n := len(q.mail); n > 0 && at.Before(q.mail[n-1].at) {
			at = q.mail[n-1].at
		}
		q.mail = append(q.mail, letter{at: at, Bucket: q.claim.Tell(m.now, b)})
	}
}

// full is what the buckets in use may hold.
func (m *model) full() (n float64) {
	for _, p := range m.all {
		if m.now.Before(p.until) {
			n += float64(p.told.Max)
		}
	}
	return n
}

// FuzzModel: whatever proxies do, they never hold more than the limit together, and over
// no time do they admit more than
//
//	what their buckets hold + rate × time + the Max of each bucket that was replaced.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1), int64(10), int64(10), uint8(3))
	f.Add(uint64(2), int64(1000), int64(100), uint8(8))
	f.Add(uint64(3), int64(1), int64(1), uint8(2))
	f.Add(uint64(4), int64(3), int64(50), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, perMinute, burst int64, proxies uint8) {
		m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0)}
		m.rate, m.burst = RateOf(min(max(perMinute, 0), 1e9), time.Minute), min(max(burst, 1), 1e6)
		type point struct {
			at                     time.Time
			allowed, granted, full float64
		}
		var seen []point
		for i := range 2400 { // two minutes
			if i%40 == 0 && len(m.all) < 1+int(proxies%10) {
				m.all = append(m.all, &proxy{due: m.now, demand: 3 * m.r.Float64() * float64(m.rate) / float64(PerSecond)})
			}
			for _, p := range m.all {
				switch m.r.IntN(600) {
				case 0:
					p.demand = 3 * m.r.Float64() * float64(m.rate) / float64(PerSecond)
				case 1:
					p.demand = 0
				case 2:
					p.lost, p.claim.Lost = p.connected, p.connected
				}
			}
			m.step()
			if i%20 == 0 {
				seen = append(seen, point{m.now, m.allowed, m.granted, m.full()})
			}
			for _, s := range seen {
				most := s.full + m.granted - s.granted + m.now.Sub(s.at).Seconds()*float64(m.rate)/float64(PerSecond)
				if got := m.allowed - s.allowed; got > most+0.001 {
					t.Fatalf("in %v: %.3f were admitted, want at most %.3f", m.now.Sub(s.at), got, most)
				}
			}
		}
	})
}
