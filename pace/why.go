package pace

import (
	"fmt"
	"strings"
	"time"
)

// Why describes, for people, what makes requests wait. A zero field is no reason.
type Why struct {
	// Rate is the rate at which requests are paced, in cost a second: in requests a second,
	// where none states a cost.
	Rate float64
	// Source says where the Rate is known from. If zero, nothing has shown a limit yet, or
	// the Controller does not say.
	Source Source
	// Throttled is when the last throttled answer came.
	Throttled time.Time
	// Until is when the server said to come back, or when the rest before a retry ends.
	Until time.Time
	// InFlight is how many requests are in flight, if no more may be.
	InFlight int
	// Limit and Remaining are what the server stated last: Remaining requests of Limit are
	// left. Limit is the burst, where the server states one.
	Limit, Remaining Opt[int64]
}

// Source says where a rate is known from: see [Why].
type Source uint8

const (
	// SourceNone: no sign of a limit yet, so nothing is paced.
	SourceNone Source = iota
	// SourceSet: the program sets it, as in a [Fixed].
	SourceSet
	// SourceRestored: an earlier process learnt it, see [Learnt].
	SourceRestored
	// SourceRefusals: measured by the requests served and refused.
	SourceRefusals
	// SourceStated: the server states what remains or its policy, as in the header fields
	// RateLimit and RateLimit-Policy.
	SourceStated
)

// String returns the source in small letters: "none", "set", "restored",
// "refusals" or "stated".
func (s Source) String() string {
	if s > SourceStated {
		return "unknown"
	}
	return [...]string{"none", "set", "restored", "refusals", "stated"}[s]
}

// MarshalText returns what String does.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Explainer is a Controller that can say why it makes requests wait.
type Explainer interface {
	// Why describes what makes requests wait at the time now.
	Why(now time.Time) Why
}

// String describes w in words: "paced at 0.83/s since a throttled answer at
// 12:03:11, 3 of 5000 remaining".
func (w Why) String() string {
	var all []string
	if !w.Until.IsZero() {
		all = append(all, "not before "+w.Until.Format(time.TimeOnly))
	}
	if w.InFlight > 0 {
		all = append(all, fmt.Sprintf("%d in flight, which is the most", w.InFlight))
	}
	paced := ""
	if w.Rate > 0 {
		paced = fmt.Sprintf("paced at %.3g/s", w.Rate)
	}
	if !w.Throttled.IsZero() {
		paced = strings.TrimSpace(paced + " since a throttled answer at " + w.Throttled.Format(time.TimeOnly))
	}
	if paced != "" {
		all = append(all, paced)
	}
	switch {
	case w.Remaining.OK && w.Limit.OK:
		all = append(all, fmt.Sprintf("%d of %d remaining", w.Remaining.V, w.Limit.V))
	case w.Remaining.OK:
		all = append(all, fmt.Sprintf("%d remaining", w.Remaining.V))
	}
	return strings.Join(all, ", ")
}

// heard is what a server stated last, for people.
type heard struct {
	throttled        time.Time
	limit, remaining Opt[int64]
}

func (h *heard) note(now time.Time, o *Outcome) {
	if o.Verdict == Throttled {
		h.throttled = now
	}
	if o.Hints.Limit.OK {
		h.limit = o.Hints.Limit
	}
	if o.Hints.Burst.OK {
		h.limit = o.Hints.Burst
	}
	if o.Hints.Remaining.OK {
		h.remaining = o.Hints.Remaining
	}
}

// Why describes what paces requests now, in the unit of their costs.
func (a *Adaptive) Why(now time.Time) Why {
	a = a.slowest(now)
	w := Why{Rate: a.nextRate * a.costs.unit(), Source: a.source(), Throttled: a.heard.throttled, Limit: a.heard.limit, Remaining: a.heard.remaining}
	if until := a.epoch.Add(seconds(a.block)); a.began && until.After(now) {
		w.Until = until
	}
	return w
}

// source returns where the rate is known from.
func (a *Adaptive) source() Source {
	switch policy := a.level.binding(); {
	case a.level.on:
		return SourceStated
	case !a.on:
		return SourceNone
	case policy > 0 && a.nextRate >= policy:
		return SourceStated
	case a.restored && a.heard.throttled.IsZero():
		return SourceRestored
	case a.heard.throttled.IsZero(): // a hint was acted on before any refusal
		return SourceStated
	}
	return SourceRefusals
}

// Why returns the rate.
func (f *Fixed) Why(time.Time) Why {
	if f.Rate > 0 {
		return Why{Rate: f.Rate, Source: SourceSet}
	}
	return Why{}
}

// Foresee updates the Forecast and the Blocker of t, if it is in line, as if it were the first.
func (g *Gate) Foresee(now time.Time, t *Ticket) {
	if t.at != ready {
		return
	}
	first := t.request
	first.Place = 1
	t.Forecast = g.wait(now, first)
	t.foresee(now, nil)
}

// Why describes what t waits for, if it is in line or resting: the limit of its Blocker, or else
// the limit of the Gate.
func (g *Gate) Why(now time.Time, t *Ticket) Why {
	control, ceiling, flying, most := g.Control, &g.ceiling, g.inFlight, g.MaxInFlight
	if s := t.Blocker; s != nil {
		control, ceiling, flying, most = s.Control, &s.ceiling, s.inFlight, s.MaxInFlight
	}
	var w Why
	if e, ok := control.(Explainer); ok {
		w = e.Why(now)
	}
	if t.at == resting && t.rested.After(w.Until) {
		w.Until = t.rested
	}
	if d := ceiling.Pause(now); d > 0 && now.Add(d).After(w.Until) {
		w.Until = now.Add(d)
	}
	switch {
	case ceiling.Full(flying, most):
		w.InFlight = flying
	case t.Blocker == nil && g.held():
		w.InFlight = g.MaxInFlight
	}
	return w
}
