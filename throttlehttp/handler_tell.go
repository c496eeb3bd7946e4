package throttlehttp

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// Headers selects the header fields that tell callers about the limit.
type Headers uint8

const (
	// Draft sets RateLimit and RateLimit-Policy on every answer, in the form of
	// draft-ietf-httpapi-ratelimit-headers-08 and later, and Retry-After on
	// refusals. Of several limits at most 8 are reported, under the names of
	// their rules; the second limit of a rule has /1 behind its name.
	Draft Headers = iota
	// OnlyRetryAfter sets Retry-After on refusals. Use it where the number
	// remaining would help an attacker, as at a login.
	OnlyRetryAfter
	// OnlyRemaining sets a bare RateLimit-Remaining on every answer and nothing
	// else, as Heroku's API does.
	OnlyRemaining
	// Silent sets no field.
	Silent
	// Triple sets RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
	// the limit that decides, as in the drafts before 07, and Retry-After on
	// refusals. The reset is in seconds from now.
	Triple
	// XTriple is Triple with X- before the names.
	XTriple
	// XTripleUnix is XTriple with the reset as Unix time, as GitHub has it.
	XTripleUnix
)

// Names as they are in a map of fields.
const (
	retryAfter   = "Retry-After"
	retryAfterMs = "Retry-After-Ms"
	rateLimit    = "Ratelimit"
	ratePolicy   = "Ratelimit-Policy"
)

const maxPolicies = 8

// tell sets the fields about the limits; refused reports whether the request is
// refused, and after is how long to wait then, limit.Never if that does not
// help.
func (v *visit) tell(to http.Header, after wait, refused bool) {
	dialect := v.h.Headers
	if refused && after.whole != limit.Never && dialect != Silent && dialect != OnlyRemaining {
		v.tellRetry(to, after)
	}
	i := v.decided()
	if i < 0 || v.busy != nil { // what was refunded says nothing
		return
	}
	switch dialect {
	case Draft:
		v.tellDraft(to, i, after.whole, refused)
	case OnlyRemaining:
		to["Ratelimit-Remaining"] = []string{number(v.answers[i].Remaining)}
	case Triple:
		v.tellTriple(to, "", i, after.whole)
	case XTriple, XTripleUnix:
		v.tellTriple(to, "X-", i, after.whole)
	}
}

func (v *visit) tellRetry(to http.Header, after wait) {
	whole := signal.Seconds(after.whole)
	to[retryAfter] = []string{number(int64(whole / time.Second))}
	if v.h.RetryAfterMs || after.exact < whole {
		to[retryAfterMs] = []string{number(int64(after.exact / time.Millisecond))}
	}
}

// tellDraft reports all limits, the one that decided first.
func (v *visit) tellDraft(to http.Header, decided int, after time.Duration, refused bool) {
	var few [160]byte
	now := few[:0]
	all := ""
	for k := range min(len(v.answers), maxPolicies) {
		i := k
		switch {
		case k == 0:
			i = decided
		case k <= decided:
			i = k - 1
		}
		p := v.h.policies.of(v.policyName(v.asks[i].Key), v.asks[i].Limit)
		if k == 0 {
			all = p.text
		} else {
			all += ", " + p.text
			now = append(now, ", "...)
		}
		now = v.appendItem(now, p.name, i, decided, after, refused)
	}
	both := &[2]string{all, string(now)} // one allocation for both
	to[ratePolicy], to[rateLimit] = both[:1:1], both[1:]
}

// appendItem appends "name";r=REMAINING;t=RESET.
func (v *visit) appendItem(to []byte, name string, i, decided int, after time.Duration, refused bool) []byte {
	d := v.answers[i]
	to = append(append(to, name...), ";r="...)
	to = appendNumber(to, d.Remaining)
	// The draft wants no Retry-After before the reset, and a bucket has
	// something to give long before it is full.
	reset := d.ResetAfter
	switch {
	case refused && i == decided:
		reset = after
	case !d.OK:
		reset = d.RetryAfter
	}
	if reset != limit.Never {
		to = appendNumber(append(to, ";t="...), int64(signal.Seconds(reset)/time.Second))
	}
	if i == decided && v.h.Caller != nil {
		to = append(to, ";throttle-share="...)
		to = strconv.AppendFloat(to, v.share(i), 'f', 3, 64)
	}
	return to
}

// share returns the fair share of the caller, in requests a second.
func (v *visit) share(i int) float64 {
	l := v.asks[i].Limit
	rate := float64(max(l.Count, 0)) / l.Period.Seconds()
	crowd := v.h.crowds.size(v.h.hash(v.asks[i].Key), v.h.hash(v.h.Caller(v.r)), v.at())
	return min(max(rate/crowd, 0.001), signal.MaxShare) // in a thousandth, zero would say nothing
}

// tellTriple reports the limit that decided.
func (v *visit) tellTriple(to http.Header, x string, decided int, after time.Duration) {
	d := v.answers[decided]
	reset := d.ResetAfter
	if !d.OK {
		reset = after
	}
	set := func(name, value string) { to[x+name] = []string{value} }
	set("Ratelimit-Limit", number(v.asks[decided].Limit.Count))
	set("Ratelimit-Remaining", number(d.Remaining))
	switch {
	case reset == limit.Never:
	case v.h.Headers == XTripleUnix:
		set("Ratelimit-Reset", number(v.at().Add(reset+time.Second-1).Unix()))
	default:
		set("Ratelimit-Reset", number(int64(signal.Seconds(reset)/time.Second)))
	}
}

// number returns n as an Integer of a structured field: at most 15 digits, none
// below zero.
func number(n int64) string { return string(appendNumber(make([]byte, 0, 16), n)) }

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

// textOf returns a limit as package signal writes it.
func textOf(name string, l limit.Limit) (t policyText) {
	s := signal.Signal{
		Limit: pace.Some(max(l.Count, 0)), Window: pace.Some(l.Period), Remaining: pace.Some[int64](0),
	}
	if l.Kind == limit.TokenBucket && l.Max() != l.Count {
		s.Burst = pace.Some(l.Max())
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
