package scenario

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// kinds are the kinds of limit that a file may name.
var kinds = []string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-slots", "sliding-log", "first-hit-window", "calendar-window", "none"}

// limits are what the server allows: one limit, several, or a gap.
func (y *yamlFile) limits(s *sim.Server, f fields) {
	several, gap := f.get("limits"), f.get("gap")
	switch {
	case gap.present():
		y.without(f, "a server with a gap has no other limit", "limit", "rate", "burst", "start", "slots", "by", "counts", "queue", "limits", "changes", "scale", "nodes", "phase")
		s.Gap = y.gap(gap)
		return
	case !several.present():
		q := y.quota(f)
		s.Limit, s.By, s.Costs = q.Limit, q.By, q.Costs
		s.Queue = f.get("queue").queue(q.Limit)
		return
	}
	y.without(f, "with limits, it belongs to each of them", "limit", "rate", "burst", "slots", "by", "counts", "queue")
	list := several.sequence(maxQuotas, "[{rate: 60/min}, {rate: 5/s, by: key}]")
	if len(list) == 0 && y.err == nil {
		several.fail("must have at least one, as in [{rate: 60/min}, {rate: 5/s, by: key}]")
	}
	for i, n := range list {
		g := y.mapping(n, "limits", "limit", "rate", "burst", "slots", "by", "counts", "queue")
		if y.err != nil {
			return
		}
		q := y.quota(g)
		if y.err == nil && q.Limit.Unlimited() {
			g.get("limit").fail("limits nothing; leave it out of several")
		}
		if i > 0 {
			y.without(g, "only the first of several limits delays", "queue")
			if y.err == nil && q.Limit.Count == 0 {
				g.get("rate").fail("allows nothing, and the others could never pass")
			}
			s.More = append(s.More, q)
			continue
		}
		s.Limit, s.By, s.Costs = q.Limit, q.By, q.Costs
		s.Queue = g.get("queue").queue(q.Limit)
	}
}

// queue is the field as how many wait for a token of l.
func (f field) queue(l limit.Limit) int64 {
	n := f.integer(1, maxCount)
	if n > 0 && l.Count == 0 {
		f.fail("waits for tokens, and a rate of 0 gives none")
	}
	return n
}

// quota is one limit, and what it counts.
func (y *yamlFile) quota(f fields) (q sim.Quota) {
	q.Limit = y.limit(f)
	q.By = sim.By(f.get("by").choice("all", "process", "key"))
	q.Costs = f.get("counts").choice("requests", "cost") == 1
	return q
}

// limit is what the server allows.
func (y *yamlFile) limit(f fields) limit.Limit {
	l, none := y.kind(f)
	if none || y.err != nil {
		return l
	}
	rate := f.get("rate")
	if !rate.present() {
		y.fail(f.node, "server: no rate; write one, as in rate: 4/s, or limit: none")
		return l
	}
	l.Count, l.Period = rate.rateOf(l.Kind)
	l.Slots = int32(f.get("slots").integer(1, limit.MaxSlots))
	if l.Kind == limit.TokenBucket {
		if l.Burst = f.get("burst").integer(1, maxCount); l.Burst == 0 {
			l.Burst = max(1, int64(float64(l.Count)/l.Period.Seconds()))
			if f.get("queue").present() {
				l.Burst = 1
			}
		}
	}
	return l
}

// rateOf is the field as a rate of that kind of limit.
func (f field) rateOf(kind limit.Kind) (count int64, period time.Duration) {
	if kind != limit.CalendarWindow {
		if count, period = f.rate(); kind == limit.SlidingLog && count > limit.MaxLog {
			f.fail("is more than the %d that a sliding log keeps at most", limit.MaxLog)
		}
		return count, period
	}
	text, _ := f.scalar()
	l, err := limit.Parse(text+" calendar-window", nil)
	if err != nil {
		f.fail("is not a rate of a calendar window; write COUNT/UNIT with a unit of min, hour, day, week or month")
	}
	return l.Count, l.Period
}

// kind is what kind of limit it is, if any.
func (y *yamlFile) kind(f fields) (l limit.Limit, none bool) {
	kind := f.get("limit")
	word, _ := kind.scalar()
	known, err := limit.ParseKind(word)
	switch {
	case !kind.present():
	case word == "leaky-bucket":
		if !f.get("queue").present() {
			y.fail(kind.node, "limit leaky-bucket: it delays what is too soon; write queue: 20, how many may wait, or limit: token-bucket")
		}
	case word == "none":
		y.without(f, "a server with limit none has none; leave it out", "rate", "burst", "start", "changes", "slots", "by", "counts", "queue", "scale")
		return l, true
	case word == "concurrency":
		y.fail(kind.node, "limit concurrency: write limit: none and how many are worked on at once, as in service: {time: 200ms, at_once: 10}")
	case err != nil:
		kind.fail("is not known; %s", words.Meant(word, kinds))
	default:
		l.Kind = known
	}
	if l.Kind != limit.TokenBucket {
		y.without(f, "a "+strings.ReplaceAll(l.Kind.String(), "-", " ")+" has none; leave it out", "burst", "start", "queue")
	}
	if l.Kind != limit.SlidingSlots {
		y.without(f, "it is of sliding-slots alone; leave it out", "slots")
	}
	return l, false
}

// hints are what the server says: a list, or a mapping with what is wrong with
// them.
func (y *yamlFile) hints(s *sim.Server, f field) {
	if f.present() {
		if _, list := f.node.(*ast.SequenceNode); !list {
			if _, ok := f.scalar(); ok || f.node.Type() == ast.NullType {
				f.fail("must be a list, as in [remaining, retry-after]")
				return
			}
			g := y.mapping(f.node, "hints", "say", "missing", "stale")
			s.Blur.Missing = g.get("missing").number(0, 1)
			s.Blur.Stale = g.get("stale").duration(time.Millisecond, maxTime)
			f = g.get("say")
			if !f.present() {
				y.fail(g.node, "hints: nothing to say; write say: [remaining]")
				return
			}
		}
	}
	s.Hints = y.said(f)
}

// hintName is the word for a hint.
type hintName struct {
	name string
	is   *bool
}

func hintNames(h *sim.Hints) []hintName {
	return []hintName{
		{"remaining", &h.Remaining},
		{"retry-after", &h.RetryAfter},
		{"reset", &h.Reset},
		{"full", &h.Full},
		{"policy", &h.Policy},
		{"share", &h.Share},
		{"crowded", &h.Crowded},
	}
}

func (y *yamlFile) said(f field) (h sim.Hints) {
	known := hintNames(&h)
	for _, n := range f.sequence(len(known), "[remaining, retry-after]") {
		word, _ := (field{node: n}).scalar()
		var names []string
		found := false
		for _, k := range known {
			names = append(names, k.name)
			if word == k.name {
				found, *k.is = true, true
			}
		}
		if !found {
			y.fail(n, "hint %s is not known; %s", show(n), words.Meant(word, names))
		}
	}
	return h
}
