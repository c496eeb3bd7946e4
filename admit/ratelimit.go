package admit

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/signal"
)

// maxPolicies bounds the limits that callers are told about.
const maxPolicies = 8

// RateLimit returns the fields RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-08 and later: all limits, the one that
// decided first, at most 8, under the names of their rules; the second limit of
// a rule has /1 behind its name. Both are empty if no limit decided. The Share
// is stated as a parameter throttle-share, see signal.Signal.Share.
func (a *Admission) RateLimit() (policy, current string) {
	if a.Binding < 0 {
		return "", ""
	}
	var few [160]byte
	now := few[:0]
	for k := range min(len(a.Decisions), maxPolicies) {
		i := k
		switch {
		case k == 0:
			i = a.Binding
		case k <= a.Binding:
			i = k - 1
		}
		p := a.control.policies.of(a.LimitName(i), a.Asks[i].Limit)
		if k == 0 {
			policy = p.text
		} else {
			policy += ", " + p.text
			now = append(now, ", "...)
		}
		now = a.appendItem(now, p.name, i)
	}
	return policy, string(now)
}

// appendItem appends "name";r=REMAINING;t=RESET.
func (a *Admission) appendItem(to []byte, name string, i int) []byte {
	d := a.Decisions[i]
	to = append(append(to, name...), ";r="...)
	to = appendNumber(to, d.Remaining)
	// The draft wants no Retry-After before the reset, and a bucket has
	// something to give long before it is full.
	reset := d.ResetAfter
	switch {
	case !a.OK && i == a.Binding && !a.Degraded:
		reset = a.RetryAfterWhole
	case !d.OK:
		reset = d.RetryAfter
	}
	if reset != limit.Never {
		to = appendNumber(append(to, ";t="...), int64(signal.Seconds(reset)/time.Second))
	}
	if i == a.Binding && a.Request.Caller != "" {
		to = append(to, ";throttle-share="...)
		share := min(max(a.Share(), 0.001), signal.MaxShare) // in a thousandth, zero would say nothing
		to = strconv.AppendFloat(to, share, 'f', 3, 64)
	}
	return to
}

// appendNumber appends n as an Integer of a structured field: at most 15 digits,
// none below zero.
func appendNumber(to []byte, n int64) []byte {
	return strconv.AppendInt(to, min(max(n, 0), 999_999_999_999_999), 10)
}

// policies cache how limits are written in RateLimit-Policy, at most maxTexts.
type policies struct {
	known atomic.Pointer[map[policy]policyText]
}

type policy struct {
	name  string
	limit limit.Limit
}

type policyText struct{ name, text string } // "name" and "name";q=100;w=60;throttle-burst=20

const maxTexts = 1000

func (p *policies) of(name string, l limit.Limit) policyText {
	key := policy{name, l}
	known := p.known.Load()
	if known != nil {
		if text, ok := (*known)[key]; ok {
			return text
		}
	}
	text := textOf(name, l)
	next := map[policy]policyText{key: text}
	if known != nil && len(*known) < maxTexts { // otherwise start over
		for k, t := range *known {
			next[k] = t
		}
	}
	p.known.CompareAndSwap(known, &next) // if this fails, another call has done it
	return text
}

// textOf returns a limit as package signal writes it. The quota is written of whole
// seconds: of other Periods the most at once is another number.
func textOf(name string, l limit.Limit) (t policyText) {
	var s signal.Signal
	l.Period = periodOf(l)
	s.Limit.V, s.Limit.OK = max(l.Count, 0), true
	s.Window.V, s.Window.OK = l.Period, true
	s.Remaining.OK = true
	if l.Kind == limit.TokenBucket && l.Max() != l.Count || l.Period%time.Second != 0 {
		s.Burst.V, s.Burst.OK = l.Max(), true
	}
	s.Write(func(field, value string) {
		switch field {
		case "RateLimit-Policy":
			t.text = value
		case "RateLimit":
			t.name = value[:len(value)-len(";r=0")]
		}
	}, name)
	return t
}

// periodOf returns the Period that l counts in: a CalendarWindow rounds its own up, as
// String writes it.
func periodOf(l limit.Limit) time.Duration {
	if l.Kind != limit.CalendarWindow {
		return l.Period
	}
	l.Zone = nil // its name may be one that cannot be read
	l, _ = limit.Parse(l.String(), nil)
	return l.Period
}
