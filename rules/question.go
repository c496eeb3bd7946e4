package rules

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// question is the work of one decision. It is reused.
type question struct {
	c         *Compiled
	r         Request
	address   netip.Addr // of the request, unmapped
	described bool       // the request is a descriptor
	path      string     // cleaned; empty: not yet
	reading   string     // of a path with dot segments, to look up overrides; empty: none
	host      string
	values    []value // of each of c.parts

	inFlight *store.InFlight // nil: requests in flight are not counted

	kill     bool   // nothing is refused
	killed   bool   // it would be refused, before the Store is asked
	killedBy string // by this rule; empty: an entry of the deny list

	asks    []limit.Ask
	answers []limit.Decision
	owners  []int // the rule of each ask
	counts  []store.Count
	holders []int // the rule of each count
	shadows []int // the shadow rules that are for the request

	// Keys are made one after the other in one piece of memory, and become
	// strings together.
	keys               []byte
	askKeys, countKeys []piece
	tail               []byte

	candidates []int // see index
	sign       []byte
}

// A piece is from where to where.
type piece struct{ from, to int }

// value is a part of the request, once it has been asked for.
type value struct {
	asked, ok bool
	text      string // of an address: none
}

func (q *question) begin(c *Compiled, r Request, f *store.InFlight) {
	q.inFlight, q.kill = f, c.kill.on(r.Now)
	q.c, q.r, q.address, q.described = c, r, plain(r.Address), r.described()
	if len(q.values) != len(c.parts) {
		q.values = make([]value, len(c.parts))
	}
}

// done drops all that belongs to the request, and returns q to the pool.
func (q *question) done() {
	c := q.c
	q.again()
	clear(q.values)
	q.c, q.r, q.address, q.path, q.reading, q.host, q.inFlight = nil, Request{}, netip.Addr{}, "", "", "", nil
	q.shadows, q.killed, q.killedBy = q.shadows[:0], false, ""
	c.pool.Put(q)
}

// again drops the asks made so far.
func (q *question) again() {
	clear(q.asks)
	clear(q.counts)
	q.asks, q.answers, q.owners = q.asks[:0], q.answers[:0], q.owners[:0]
	q.counts, q.holders = q.counts[:0], q.holders[:0]
	q.keys, q.askKeys, q.countKeys = q.keys[:0], q.askKeys[:0], q.countKeys[:0]
}

func (q *question) pathname() string {
	if q.path == "" {
		q.path = pathOf(q.r.Path)
	}
	return q.path
}

// pathMatches reports whether one of the patterns is for the path, cleaned or as it
// was sent: an http.ServeMux takes an encoded dot segment for a name like any other,
// so that either may be what is served.
func (q *question) pathMatches(patterns []glob.Pattern) bool {
	path := q.pathname()
	return anyOf(patterns, path) || path != q.r.Path && anyOf(patterns, q.r.Path)
}

// plain reports whether the path can be read in one way only.
func (q *question) plain() bool {
	return !q.dotted() && !strings.Contains(strings.ToLower(q.r.RawPath), "%2f")
}

// dotted reports whether the path has dot segments, so that it may be served as it
// was sent, or without them.
func (q *question) dotted() bool {
	path := q.r.Path
	if !strings.Contains(path, "/.") && !strings.HasPrefix(path, ".") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// readings are the paths as which a path with dot segments may be served.
func (q *question) readings() [2]string { return [...]string{q.pathname(), q.r.Path} }

// readAs makes a path what keys are made of, until it is made "".
func (q *question) readAs(path string, parts []int) {
	q.reading = path
	for _, i := range parts {
		if q.c.parts[i].ofPath() {
			q.values[i] = value{}
		}
	}
}

// keyPath returns the path that keys are made of. If it has dot segments there is
// none: a caller could have a new key with each path, and be served the same.
func (q *question) keyPath() string {
	if q.reading != "" || q.dotted() {
		return q.reading
	}
	return q.pathname()
}

// pathPart returns the path, or a segment of it. A descriptor has none.
func (q *question) pathPart(p *part) string {
	switch {
	case q.described:
		return ""
	case p.kind == byPath:
		return q.keyPath()
	}
	return segment(q.keyPath(), p.n)
}

func (q *question) hostname() string {
	if q.host == "" {
		q.host = hostOf(q.r.Host)
	}
	return q.host
}

// value returns a part of the request; not ok if it is missing or empty.
func (q *question) value(part int) (text string, ok bool) {
	v := &q.values[part]
	if !v.asked {
		v.asked = true
		v.text, v.ok = q.find(&q.c.parts[part])
	}
	return v.text, v.ok
}

func (q *question) find(p *part) (text string, ok bool) {
	switch p.kind {
	case byAddress:
		return "", q.address.IsValid()
	case byClient:
		text = q.r.Client
	case byHeader:
		if q.r.Header != nil {
			text = q.r.Header(p.name)
		}
		if text == "" && p.name == "Host" { // net/http has it beside the header
			text = q.r.Host
		}
	case byHost:
		text = q.hostname()
	case byMethod:
		text = q.r.Method
	case byPath, bySegment:
		text = q.pathPart(p)
	case byDomain:
		text = q.r.Domain
	case byDescriptor:
		text = joined(q.r.Descriptor)
	case byEntry:
		text = valueOf(q.r.Descriptor, p.name)
	default:
		if q.r.Value == nil {
			return "", false
		}
		text, ok = q.r.Value(p.name)
		return text, ok && text != ""
	}
	return text, text != ""
}

// ask adds the asks of a rule; not ok if the rule refuses requests that lack a
// part of the key and this one does.
func (q *question) ask(ctx context.Context, i int) (ok bool) {
	rule := &q.c.rules[i]
	t := &rule.terms
	dotted := rule.byPath && q.dotted()
	if whole := q.makeTail(rule.parts); whole {
		other := q.override(ctx, rule)
		switch {
		case other != nil && rule.tried: // beside the rule's limits, not those of an override
			return true
		case other != nil:
			t = other
		}
	} else if rule.missing == Refuse || rule.missing == Pass && !dotted {
		return rule.missing == Pass
	}
	q.askTerms(i, t)
	if dotted && !rule.tried {
		q.askReadings(ctx, i)
	}
	return true
}

// override returns what counts for the key at hand in place of a rule's terms, or
// nil.
func (q *question) override(ctx context.Context, rule *rule) *terms {
	other := rule.other.find(q, rule.parts, q.tail)
	if other == nil && rule.lookup && q.r.Override != nil {
		other = q.lookup(ctx, rule)
	}
	return other
}

// askReadings adds the asks of the overrides of a rule for the paths as which one
// with dot segments may be served: beside the rule's own, so that it passes none.
func (q *question) askReadings(ctx context.Context, i int) {
	rule := &q.c.rules[i]
	var before string
	for _, path := range q.readings() {
		q.readAs(path, rule.parts)
		if whole := q.makeTail(rule.parts); !whole || string(q.tail) == before {
			continue
		}
		before = string(q.tail)
		if other := q.override(ctx, rule); other != nil {
			q.askTerms(i, other)
		}
	}
	q.readAs("", rule.parts)
}

// askTerms adds the asks of terms of a rule, with the tail at hand.
func (q *question) askTerms(i int, t *terms) {
	rule := &q.c.rules[i]
	n := rule.cost.N
	if q.r.Cost != nil && len(t.limits) > 0 {
		n = rule.costOf(&q.r)
	}
	for j, l := range t.limits {
		if l.Unlimited() {
			continue
		}
		q.asks = append(q.asks, limit.Ask{Limit: l, N: n, Debt: rule.debt && n > 0})
		q.owners = append(q.owners, i)
		q.askKeys = append(q.askKeys, q.makeKey(rule, j))
	}
	if t.most > 0 && q.inFlight != nil {
		q.counts = append(q.counts, store.Count{Max: t.most, N: 1})
		q.holders = append(q.holders, i)
		q.countKeys = append(q.countKeys, q.makeKey(rule, 0))
	}
}

// makeKey makes a key with the tail at hand. Limits and requests in flight are
// counted in different places, so their keys may be equal.
func (q *question) makeKey(rule *rule, n int) piece {
	from := len(q.keys)
	q.keys = append(append(q.keys, rule.name...), '/')
	if rule.tried {
		q.keys = append(q.keys, 's')
	}
	q.keys = append(strconv.AppendInt(q.keys, int64(n), 10), q.tail...)
	return piece{from, len(q.keys)}
}

// makeTail makes the end of the keys of a rule, /PART=VALUE for each part;
// whole reports that no part is missing.
func (q *question) makeTail(parts []int) (whole bool) {
	q.tail, whole = q.tail[:0], true
	for _, i := range parts {
		p := q.c.parts[i]
		text, ok := q.value(i)
		whole = whole && ok
		q.tail = appendPart(q.tail, p)
		if p.kind != byAddress {
			q.tail = appendValue(q.tail, p, text)
		} else if ok {
			q.tail = appendAddress(q.tail, q.address, q.c.bits)
		}
	}
	return whole
}

func appendPart(key []byte, p part) []byte {
	return append(append(append(key, '/'), p.text...), '=')
}

// take asks the Store and InFlight: if either refuses, neither counts anything.
// refused is the index of the first of counts that does not fit, or -1.
func (q *question) take(ctx context.Context, s store.Store) (h store.Hold, refused int, ok bool, err error) {
	if q.c.away && len(q.asks) > 0 && ctx != nil {
		ctx = store.WithFallback(ctx, q.c.fallback)
	}
	keys := string(q.keys)
	for i, p := range q.askKeys {
		q.asks[i].Key = keys[p.from:p.to]
		q.answers = append(q.answers, limit.Decision{})
	}
	for i, p := range q.countKeys {
		q.counts[i].Key = keys[p.from:p.to]
	}
	switch {
	case len(q.asks) > 0 && ctx == nil:
		panic("rules: the context of a decision is nil")
	case len(q.asks) > 0 && s == nil:
		panic("rules: the Store of a decision is nil")
	case len(q.counts) == 0:
		ok, err = s.Take(ctx, q.asks, q.answers)
		return h, -1, ok, err
	case len(q.asks) == 0:
		h, refused, ok = q.inFlight.Acquire(q.counts...)
		return h, refused, ok, nil
	}
	return q.inFlight.Admit(ctx, s, q.asks, q.answers, q.counts...)
}

// Hold counts a request as in flight until it is released. The zero Hold holds
// nothing.
type Hold struct {
	real   store.Hold
	shadow []store.Hold
}

// Release ends the Hold. Further calls do nothing. It is safe for concurrent
// use.
func (h Hold) Release() {
	h.real.Release()
	for _, s := range h.shadow {
		s.Release()
	}
}
