package importenvoy

import (
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

const (
	mostText        = 256    // bytes of a pattern in rules
	mostDescriptors = 10_000 // of all files
	day             = 24 * time.Hour
)

// node is a descriptor of a tree.
type node struct {
	at       place
	key      string
	value    string // empty: any
	text     string // KEY or KEY_VALUE, by which the reference looks it up
	limit    *rateLimit
	shadow   bool
	quota    *place // of quota_mode, if it is on
	share    bool   // all that match its pattern share one count
	children []*node
	limited  bool // it or a descriptor below has a limit
}

// rateLimit is a rate_limit.
type rateLimit struct {
	limit    rules.Limit // unlimited: zero
	name     string
	replaces []replaced
}

type replaced struct {
	at   place
	name string
}

// pattern reports whether the value of the node has a '*'.
func (n *node) pattern() bool { return strings.Contains(n.value, "*") }

func (r *reading) descriptors(list *tree.Node) (all []*node) {
	if list.Kind != tree.List && list.Kind != tree.Null {
		r.fail(list, "descriptors: must be a list; write - key: NAME")
	}
	for _, item := range list.Items {
		n := r.descriptor(item)
		if r.err != nil {
			return nil
		}
		all = append(all, n)
	}
	r.unique(all)
	return all
}

// unique refuses two descriptors of a level that the reference looks up by one text.
func (r *reading) unique(level []*node) {
	seen := map[string]*node{}
	for _, n := range level {
		if first := seen[n.text]; first != nil && r.err == nil {
			r.err = n.at.fail("%s is there twice, first at %s; the reference looks both up as one text", words.Quote(n.text), first.at)
		}
		seen[n.text] = n
	}
}

func (r *reading) descriptor(from *tree.Node) *node {
	n := &node{at: r.at(from)}
	if r.count++; r.count > mostDescriptors {
		r.fail(from, "more than %d descriptors; a file of rules has at most %d rules", mostDescriptors, mostRules)
		return n
	}
	for _, f := range r.fields(from, "a descriptor", "key", "value", "rate_limit", "descriptors",
		"shadow_mode", "quota_mode", "share_threshold", "detailed_metric", "value_to_metric", "metadata") {
		switch v := f.Value; f.Name {
		case "key":
			n.key = r.text(f.Name, v)
		case "value":
			n.value = r.text(f.Name, v)
		case "rate_limit":
			n.limit = r.rateLimit(v)
		case "descriptors":
			n.children = r.descriptors(v)
		default:
			r.flag(n, f)
		}
	}
	n.text = n.key
	if n.value != "" {
		n.text += "_" + n.value
	}
	r.check(from, n)
	n.limited = n.limit != nil
	for _, c := range n.children {
		n.limited = n.limited || c.limited
	}
	return n
}

// flag reads what is on or off.
func (r *reading) flag(n *node, f tree.Field) {
	const metrics = " is about metrics alone; left out"
	at := r.where(f.Line, f.Column)
	if f.Name == "metadata" {
		if f.Value.Kind != tree.Map && f.Value.Kind != tree.Null {
			r.fail(f.Value, "metadata: must be a mapping, not %s", f.Value.Show())
		}
		r.notes.same(at, "metadata goes into answers and decides nothing; left out")
		return
	}
	if !r.yes(f.Name, f.Value) {
		return
	}
	switch f.Name {
	case "shadow_mode":
		n.shadow = true
	case "quota_mode":
		n.quota = &at
	case "share_threshold":
		n.share = true
	default:
		r.notes.same(at, f.Name+metrics)
	}
}

// check refuses what a descriptor cannot be, or rules cannot.
func (r *reading) check(from *tree.Node, n *node) {
	if strings.Contains(n.key, "*") && n.value != n.key { // as Envoy Gateway names the routes of any host
		r.notes.same(r.at(from), "a '*' in a key stands for itself; the reference finds descriptors with other keys by it too")
	}
	switch {
	case n.key == "":
		r.fail(from, "a descriptor without a key; write key: NAME")
	case len(n.key) > mostText, len(n.value) > mostText:
		r.fail(from, "%s is longer than the %d bytes that rules take of a key or a value", words.Quote(n.text), mostText)
	case n.share && !n.pattern():
		r.fail(from, "share_threshold without a '*' in the value %s; leave it out, or write a pattern", words.Quote(n.value))
	case n.quota == nil:
	case n.refuses():
		if r.err == nil {
			r.err = n.quota.fail("quota_mode: rules decide for each descriptor by itself, and this depends on the others of a request; remove it, or write shadow_mode, which refuses nothing")
		}
	default:
		r.notes.add(*n.quota, "quota_mode without a limit that refuses; left out")
	}
}

// refuses reports whether the node can refuse a request.
func (n *node) refuses() bool {
	return n.limit != nil && !n.shadow && n.limit.limit != rules.Limit{}
}

func (r *reading) rateLimit(n *tree.Node) *rateLimit {
	switch n.Kind {
	case tree.Null:
		return nil
	case tree.Map:
	default:
		r.fail(n, "rate_limit: must be a mapping; write unit and requests_per_unit")
		return nil
	}
	l, unit, unlimited, counted := &rateLimit{}, (*tree.Node)(nil), false, false
	for _, f := range r.fields(n, "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces") {
		switch v := f.Value; f.Name {
		case "unit":
			r.text(f.Name, v)
			unit = v
		case "requests_per_unit":
			l.limit.Count, counted = r.requests(v), true
		case "unlimited":
			unlimited = r.yes(f.Name, v)
		case "name":
			l.name = r.text(f.Name, v)
			r.notes.same(r.where(f.Line, f.Column), "name: answers have the name of the rule; left out")
		case "replaces":
			l.replaces = r.replaces(v)
		}
	}
	l.limit = r.limit(n, unit, unlimited, l.limit.Count)
	if !unlimited && !counted {
		r.notes.add(r.at(n), "no requests_per_unit, which is 0: all are refused")
	}
	for _, other := range l.replaces {
		if other.name == l.name && r.err == nil {
			r.err = other.at.fail("replaces: %s is the name of the same limit; name another", words.Quote(l.name))
		}
	}
	return l
}

// limit returns the limit of a rate_limit. Unlimited is zero.
func (r *reading) limit(n, unit *tree.Node, unlimited bool, count int64) rules.Limit {
	period, known := time.Duration(0), false
	if unit != nil {
		period, known = periods[strings.ToUpper(unit.Text)]
	}
	const right = "write second, minute, hour, day, week, month or year"
	switch {
	case unlimited && known:
		r.fail(unit, "unit with unlimited; leave one of them out")
	case unlimited:
		return rules.Limit{}
	case unit == nil:
		r.fail(n, "rate_limit: no unit; "+right)
	case !known:
		r.fail(unit, "unit: %s is not known; "+right, unit.Show())
	}
	return rules.Limit{Count: count, Period: period, Kind: limit.FixedWindow}
}

// periods are the units of the reference: a month has 30 days, and a year 365.
var periods = map[string]time.Duration{
	"SECOND": time.Second, "MINUTE": time.Minute, "HOUR": time.Hour, "DAY": day,
	"WEEK": limit.Week, "MONTH": 30 * day, "YEAR": 365 * day,
}

func (r *reading) requests(n *tree.Node) int64 {
	if n.Kind == tree.Null {
		return 0
	}
	count, err := whole(n.Text)
	if n.Kind != tree.Number || err != nil || count < 0 || count > math.MaxUint32 {
		r.fail(n, "requests_per_unit: %s; write a whole number from 0 to %d", n.Show(), uint32(math.MaxUint32))
	}
	return count
}

func (r *reading) replaces(list *tree.Node) (all []replaced) {
	if list.Kind != tree.List && list.Kind != tree.Null {
		r.fail(list, "replaces: must be a list; write - name: NAME")
	}
	for _, item := range list.Items {
		one := replaced{at: r.at(item)}
		for _, f := range r.fields(item, "replaces", "name") {
			one.name = r.text(f.Name, f.Value)
		}
		if one.name == "" {
			r.fail(item, "replaces: no name; write - name: NAME")
		}
		all = append(all, one)
	}
	return all
}
