package rules

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
)

// HitsAddend is the name by which [Request.Cost] is asked for the hits_addend of a
// descriptor, unless its rule has another Cost. A hits_addend of
// zero only looks at the limits: it costs zero whatever the Cost of the rule.
const HitsAddend = "hits_addend"

// Pair is an entry of a descriptor, as Envoy sends it: its key and value.
type Pair struct{ Key, Value string }

// PairPattern matches an entry of a descriptor. In JSON it is text, KEY for any value
// or KEY=PATTERN, or an object such as {"key": "path", "not": ["/public/*"]}.
type PairPattern struct {
	// Key is the key of the entry, exactly: at most 256 bytes.
	Key string `json:"key"`
	// Value is a pattern of its value. If empty, any.
	Value string `json:"value,omitzero"`
	// Not are patterns of values that do not match: at most 10,000, and at most 100
	// of them with '*'.
	Not []string `json:"not,omitempty"`
}

// MarshalJSON returns text if there is no Not.
func (p PairPattern) MarshalJSON() ([]byte, error) {
	switch {
	case len(p.Not) > 0 || strings.Contains(p.Key, "="):
		type plain PairPattern
		return json.Marshal(plain(p))
	case p.Value == "":
		return json.Marshal(p.Key)
	}
	return json.Marshal(p.Key + "=" + p.Value)
}

// read reads text, or an object.
func (p *PairPattern) read(n node) *Error {
	if text, ok := n.Value.(string); ok {
		var valued bool
		p.Key, p.Value, valued = strings.Cut(text, "=")
		if valued && p.Value == "" {
			return n.fail("no pattern behind '='; write %q for any value", p.Key)
		}
		return nil
	}
	fields, ok := n.Value.([]Field)
	if !ok {
		return n.fail("must be KEY, KEY=PATTERN, or {\"key\": KEY, \"value\": PATTERN, \"not\": [PATTERN, ...]}")
	}
	if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == "key" }) {
		return n.fail("no \"key\"; write it, as in {\"key\": \"path\", \"not\": \"/public/*\"}")
	}
	type plain PairPattern
	if e := decode(n, (*plain)(p)); e != nil {
		return e
	}
	if p.Value == "" && slices.ContainsFunc(fields, func(f Field) bool { return f.Name == "value" }) {
		return n.fail("an empty \"value\"; leave it out for any value")
	}
	return nil
}

// pairMatch is a PairPattern made ready.
type pairMatch struct {
	key   string
	value glob.Pattern // nil: any
	not   map[string]bool
	stars []glob.Pattern // of not
}

func (m *pairMatch) matches(p *Pair) bool {
	return p.Key == m.key && (m.value == nil || m.value.Match(p.Value)) && !m.not[p.Value] &&
		(len(m.stars) == 0 || !anyOf(m.stars, p.Value))
}

// describes reports whether a rule for descriptors is for one.
func (m *matcher) describes(r *Request) bool {
	if !anyOf(m.domains, r.Domain) {
		return false
	}
	if len(m.pairs) > 0 && len(m.pairs) != len(r.Descriptor) {
		return false
	}
	for i := range m.pairs {
		if !m.pairs[i].matches(&r.Descriptor[i]) {
			return false
		}
	}
	return true
}

// index finds the rules that may be for a descriptor, without a look at all of them: by
// the keys of its entries, and the value of the last. The zero value is empty.
type index struct {
	every []int            // those without entries in their match
	exact map[string][]int // by the keys, and the value of the last entry
	other map[string][]int // by the keys
}

// add adds a rule.
func (x *index) add(rule int, m *matcher) {
	if len(m.pairs) == 0 {
		x.every = append(x.every, rule)
		return
	}
	if x.exact == nil {
		x.exact, x.other = map[string][]int{}, map[string][]int{}
	}
	var sign []byte
	for i := range m.pairs {
		sign = append(append(sign, m.pairs[i].key...), 0)
	}
	if last := m.pairs[len(m.pairs)-1].value; last != nil && last.Exact() {
		sign = append(sign, last[0]...)
		x.exact[string(sign)] = append(x.exact[string(sign)], rule)
		return
	}
	x.other[string(sign)] = append(x.other[string(sign)], rule)
}

// find returns the rules that may be for the descriptor, in their order: all that are, and
// some that are not. They are valid until the next call.
func (x *index) find(q *question) []int {
	pairs := q.r.Descriptor
	if len(pairs) == 0 || x.exact == nil {
		return x.every
	}
	sign := q.sign[:0]
	for i := range pairs {
		sign = append(append(sign, pairs[i].Key...), 0)
	}
	keys := len(sign)
	sign = append(sign, pairs[len(pairs)-1].Value...)
	q.candidates = append(append(append(q.candidates[:0], x.every...), x.exact[string(sign)]...), x.other[string(sign[:keys])]...)
	slices.Sort(q.candidates)
	if q.sign = sign; cap(sign) > maxSign {
		q.sign = nil
	}
	return q.candidates
}

// maxSign bounds the memory that is kept to find rules.
const maxSign = 4 << 10

// described reports whether r is a descriptor.
func (r *Request) described() bool { return r.Domain != "" || len(r.Descriptor) > 0 }

// EntryAddress returns the address in the entry remote_address of a descriptor, or in
// its entry masked_remote_address. If there is none, it is invalid. A service for Envoy
// sets Address to it.
func (r *Request) EntryAddress() netip.Addr {
	for _, key := range [...]string{"remote_address", "masked_remote_address"} {
		text, _, _ := strings.Cut(valueOf(r.Descriptor, key), "/") // a network, if it is masked
		if a, err := netip.ParseAddr(text); err == nil {
			return a
		}
	}
	return netip.Addr{}
}

// costOf returns what a request takes, which has a Cost.
func (r *rule) costOf(q *Request) int64 {
	n := r.cost.N
	if r.cost.Name != "" {
		n = max(q.Cost(r.cost.Name), 0)
	}
	if r.match.described && r.cost.Name != HitsAddend && q.Cost(HitsAddend) <= 0 {
		return 0
	}
	return n
}

// DescriptorText returns the entries of the descriptor in the form that
// [ParseDescriptor] reads.
func (r *Request) DescriptorText() string { return joined(r.Descriptor) }

// joined returns all entries as one text, another one for other entries.
func joined(all []Pair) string {
	var b strings.Builder
	for i, p := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		escapeTo(&b, p.Key)
		b.WriteByte('=')
		escapeTo(&b, p.Value)
	}
	return b.String()
}

// ParseDescriptor reads the entries of a descriptor as the part descriptor of a [Key]
// has them: KEY=VALUE,KEY=VALUE, with %2C for a comma, %3D for an equals sign in a key
// and %25 for a percent sign. A KEY alone has an empty value.
func ParseDescriptor(text string) (all []Pair, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(one, "=")
		var p Pair
		if p.Key, err = url.PathUnescape(key); err == nil {
			p.Value, err = url.PathUnescape(value)
		}
		if err != nil {
			return nil, fmt.Errorf("rules: descriptor %.64q: a '%%' without two hexadecimal digits; write %%25 for it", one)
		}
		if p.Key == "" {
			return nil, fmt.Errorf("rules: descriptor %.64q: an entry without a key; write KEY=VALUE,KEY=VALUE", text)
		}
		all = append(all, p)
	}
	return all, nil
}

// escapeTo writes text with %XX in place of what has a meaning in a joined
// descriptor.
func escapeTo(b *strings.Builder, text string) {
	for {
		i := strings.IndexAny(text, "%,=")
		if i < 0 {
			b.WriteString(text)
			return
		}
		b.WriteString(text[:i])
		switch text[i] {
		case '%':
			b.WriteString("%25")
		case ',':
			b.WriteString("%2C")
		default:
			b.WriteString("%3D")
		}
		text = text[i+1:]
	}
}

// valueOf returns the value of the first entry with a key, or "".
func valueOf(all []Pair, key string) string {
	for i := range all {
		if all[i].Key == key {
			return all[i].Value
		}
	}
	return ""
}

// described makes the part of a Match about descriptors ready.
func (k *compiler) described(path string, m *Match, done *matcher) {
	done.described = len(m.Domains) > 0 || len(m.Descriptor) > 0
	if !done.described {
		return
	}
	if len(m.Methods) > 0 || len(m.Hosts) > 0 || len(m.Paths) > 0 || len(m.Headers) > 0 || m.Client != "" {
		k.fail(path, "a descriptor has no methods, hosts, paths, headers or client; match its entries, as in \"descriptor\": \"path=/api/*\", or make two rules")
	}
	if len(m.Domains) > maxMatch || len(m.Descriptor) > maxMatch {
		k.fail(path, "more than %d of a kind", maxMatch)
	}
	for i, d := range m.Domains {
		done.domains = append(done.domains, k.glob(item(path+".domains", i), d))
	}
	for i := range m.Descriptor {
		done.pairs = append(done.pairs, k.pair(item(path+".descriptor", i), &m.Descriptor[i]))
	}
}

func (k *compiler) pair(path string, p *PairPattern) pairMatch {
	done := pairMatch{key: p.Key}
	switch {
	case p.Key == "" || len(p.Key) > maxText:
		k.fail(path, "the key of an entry is 1 to %d bytes", maxText)
	case len(p.Not) > maxEntries:
		k.fail(path+".not", "more than %d patterns", maxEntries)
	}
	if p.Value != "" && p.Value != "*" {
		done.value = k.glob(path, p.Value)
	}
	for i, text := range p.Not {
		at := item(path+".not", i)
		g := k.glob(at, text)
		if !g.Exact() {
			done.stars = append(done.stars, g)
		} else {
			if done.not == nil {
				done.not = make(map[string]bool, len(p.Not))
			}
			done.not[text] = true
		}
		if text == "*" {
			k.fail(at, "matches every value, so the rule would match no descriptor")
		} else if len(done.stars) > maxPatterns {
			k.fail(at, "more than %d patterns with '*'", maxPatterns)
		}
	}
	return done
}

// descriptorRule refuses what a rule for descriptors cannot have, and what only such a
// rule has.
func (k *compiler) descriptorRule(path string, r *Rule, parts []int) {
	described := len(r.Match.Domains) > 0 || len(r.Match.Descriptor) > 0
	for i, n := range parts {
		if n < 0 {
			continue
		}
		switch p := k.c.parts[n]; {
		case !described && p.described():
			k.fail(item(path+".key", i), "only a descriptor has the part %s; write domains or descriptor into the match of the rule", p.text)
		case described && p.undescribed():
			k.fail(item(path+".key", i), "a descriptor has no %s; write domain, descriptor, entry:KEY or address", p.text)
		}
	}
	if !described {
		return
	}
	const what = "nothing tells when what a descriptor is about has ended; leave it out, or write limits"
	if r.InFlight != 0 {
		k.fail(path+".in_flight", what)
	}
	if r.Shadow.InFlight != 0 {
		k.fail(path+".shadow.in_flight", what)
	}
	for i := range r.Overrides {
		if r.Overrides[i].InFlight != 0 {
			k.fail(item(path+".overrides", i)+".in_flight", what)
		}
	}
}

// described reports whether only descriptors have the part.
func (p part) described() bool {
	return p.kind == byDomain || p.kind == byDescriptor || p.kind == byEntry
}

// undescribed reports whether descriptors do not have the part.
func (p part) undescribed() bool {
	return p.kind == byClient || p.kind == byHeader || p.kind == byHost || p.kind == byMethod || p.ofPath()
}
