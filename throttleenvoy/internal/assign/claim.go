package assign

import "time"

const (
	// TTL is how long an assignment holds: three reports of Envoy 1.40.
	TTL = 15 * time.Second
	// settle is how long a message may take, at most: a report that comes within it after an
	// assignment may be older than that.
	settle = time.Second
)

// Claim is the part of one stream in one bucket: its reports, and its assignment. The zero
// Claim has reported nothing.
type Claim struct {
	// Lost says that the stream is gone. Its proxy uses what it was told until that expires.
	Lost bool

	reported time.Time // the last report that counted; zero: none
	requests int64     // since then
	demand   Rate
	known    bool // a demand was reported

	told   Bucket
	since  time.Time // it was told first
	until  time.Time // it holds
	before Rate      // what the proxy may still use in place of told
	ends   time.Time // of before
}

// Report counts the requests that came since the last report, allowed or denied. over is
// how long that was as the proxy says, which counts only in the first report: zero for a
// bucket that is new. A demand that falls is believed by half.
func (c *Claim) Report(now time.Time, requests int64, over time.Duration) {
	if now.Sub(c.since) >= settle {
		c.before = 0
	}
	if !c.reported.IsZero() {
		over = now.Sub(c.reported)
	} else {
		c.reported = now
	}
	c.requests += max(requests, 0)
	if over < settle {
		return
	}
	demand := RateOf(c.requests, over)
	if c.known && demand < c.demand {
		demand += (c.demand - demand) / 2
	}
	c.demand, c.known, c.requests, c.reported = demand, true, 0, now
}

// Tell records that the proxy is assigned b, and returns what to assign to it: see Unlike.
func (c *Claim) Tell(now time.Time, b Bucket) Bucket {
	if c.alive(now) && b.Fill == c.told.Fill && b.Every == c.told.Every {
		b.Max = c.told.Max // the same bucket, which goes on
	}
	if b = b.Unlike(c.told); b != c.told {
		if held := c.Held(now); held > b.Rate() {
			c.before = held
			if c.alive(now) && c.until.After(c.ends) {
				c.ends = c.until
			}
		}
		c.told, c.since = b, now
	}
	c.until = now.Add(TTL + settle)
	return b
}

// Forget says that the proxy has no bucket, but a blanket rule.
func (c *Claim) Forget() { c.told, c.until, c.before = Bucket{}, time.Time{}, 0 }

// Adopt takes over what a lost stream of the same proxy was told.
func (c *Claim) Adopt(old Claim) {
	c.told, c.since, c.until, c.before, c.ends = old.told, old.since, old.until, old.before, old.ends
}

// Told is the assignment that holds; the zero Bucket if there is none.
func (c *Claim) Told(now time.Time) Bucket {
	if !c.alive(now) {
		return Bucket{}
	}
	return c.told
}

// Due reports whether the assignment is to be renewed: half of its time has passed.
func (c *Claim) Due(now time.Time) bool { return c.until.Sub(now) <= settle+TTL/2 }

// Over reports whether nothing that it was told can be in use any more.
func (c *Claim) Over(now time.Time) bool { return !c.alive(now) && !now.Before(c.ends) }

func (c *Claim) alive(now time.Time) bool { return now.Before(c.until) }

// Held is the largest rate that the proxy may be using.
func (c *Claim) Held(now time.Time) (r Rate) {
	if c.alive(now) {
		r = c.told.Rate()
	}
	if now.Before(c.ends) {
		r = max(r, c.before)
	}
	return r
}

// Share is the Claim as Divide sees it.
func (c *Claim) Share(now time.Time) Share {
	s := Share{Demand: c.demand, Held: c.Held(now), Lost: c.Lost}
	if !c.known {
		s.Demand = Unknown
	}
	if told := c.Told(now); told != (Bucket{}) {
		s.Told, s.Has = told.Rate(), true
	}
	return s
}
