package sketch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
)

// Top are the keys with the largest counts of a measure.
type Top struct {
	// Total is the count of all keys of all rules.
	Total uint64 `json:"total"`
	// Missed bounds the count of each key that is not among Keys: of those that
	// have no counter, and those left out for the length of the list.
	Missed uint64 `json:"missed"`
	// Sampled is how many decisions stood for each that was counted, at most. If 1,
	// the bounds are exact; if more, each holds with a probability above 99.99 %.
	Sampled uint32 `json:"sampled"`
	// Keys are in descending order of Count.
	Keys []Key `json:"keys"`
}

// Key holds the bounds of the count of one key.
type Key struct {
	// Rule is the name of its rule. Empty beyond 4,096 names.
	Rule string `json:"rule"`
	// ID is the digest of the key: 16 hexadecimal digits, those of
	// rules.Answer.KeyID for the first limit of the rule.
	ID string `json:"key_id"`
	// Text is the key in the clear, if it is not above 55 bytes.
	Text string `json:"key,omitempty"`
	// Count was counted since the key has had its counter.
	Count uint64 `json:"count"`
	// AtLeast and AtMost bound the true count.
	AtLeast uint64 `json:"at_least"`
	AtMost  uint64 `json:"at_most"`

	kept text
}

// Top returns at most n keys of a rule, of all rules if it is empty, in a pane and
// the one before it. Each set is locked while it is read. It takes some
// milliseconds.
func (s *Sketch) Top(at int64, by By, rule string, n int) Top {
	s.once.Do(s.setUp)
	t := Top{Sampled: 1}
	for i := range s.sets[by] {
		in := &s.sets[by][i]
		in.mu.Lock()
		t.read(in, at)
		in.mu.Unlock()
	}
	for i := range t.Keys {
		t.Keys[i].Rule = t.Keys[i].kept.rule(&s.rules)
	}
	if rule != "" {
		t.Keys = slices.DeleteFunc(t.Keys, func(k Key) bool { return k.Rule != rule })
	}
	t.widen()
	t.cut(n)
	for i := range t.Keys {
		t.Keys[i].ID, t.Keys[i].Text = t.Keys[i].kept.names()
		t.Keys[i].kept = text{} // so that equal keys are equal
	}
	return t
}

// rule returns the name of the rule of a key.
func (t *text) rule(rules *names) string {
	if t.n == isLong {
		return rules.name(binary.BigEndian.Uint16(t.bytes[8:]))
	}
	rule, _, _ := bytes.Cut(t.bytes[:t.n], []byte("/"))
	return string(rule)
}

// names returns the digest of a key, and its text if it is not long.
func (t *text) names() (id, key string) {
	if t.n == isLong {
		return hex.EncodeToString(t.bytes[:8]), ""
	}
	sum := sha256.Sum256(t.bytes[:t.n])
	return hex.EncodeToString(sum[:8]), string(t.bytes[:t.n])
}

// read adds the keys of a set.
func (t *Top) read(in *set, number int64) {
	now, before := in.at(number), in.at(number-1)
	missed := uint64(0)
	for i, p := range []*pane{now, before} {
		if p != nil {
			h := &in.heads[(number-int64(i))&1]
			t.Total += h.sum
			t.Sampled = max(t.Sampled, h.weight)
			missed += uint64(p.missed())
		}
	}
	t.Missed = max(t.Missed, missed)
	t.add(now, before, true)
	t.add(before, now, false)
}

// at returns the pane with a number, or nil.
func (s *set) at(number int64) *pane {
	if s.heads[number&1].number == number {
		return &s.panes[number&1]
	}
	return nil
}

// add adds the keys of p, with their counts in other. Those of both are added with
// the later one.
func (t *Top) add(p, other *pane, later bool) {
	if p == nil {
		return
	}
	for i, hash := range p.hash {
		if p.count[i] == 0 {
			continue
		}
		k := Key{kept: p.text[i], AtMost: uint64(p.count[i]), Count: uint64(p.count[i] - p.over[i])}
		if other != nil {
			switch j, found := other.find(hash); {
			case found && !later:
				continue
			case found:
				k.AtMost += uint64(other.count[j])
				k.Count += uint64(other.count[j] - other.over[j])
			default:
				k.AtMost += uint64(other.count[j])
			}
		}
		t.Keys = append(t.Keys, k)
	}
}

// Beyond four standard deviations is one in 30,000. Of few steps the count is
// Poisson: one that stays at zero so rarely has a mean of ten.
const (
	sigmas = 4
	few    = 10
)

// widen widens the bounds by the error of the sampling: of a count c made of
// steps of weight w the standard deviation is at most the root of (w-1) c.
func (t *Top) widen() {
	w := uint64(t.Sampled - 1)
	off := func(n uint64) uint64 { return uint64(math.Ceil(sigmas * math.Sqrt(float64(w*n)))) }
	for i := range t.Keys {
		k := &t.Keys[i]
		k.AtLeast = k.Count - min(off(k.Count), k.Count)
		k.AtMost += off(k.AtMost) + few*w
	}
	t.Missed += off(t.Missed) + few*w
}

// cut sorts the keys, and leaves n.
func (t *Top) cut(n int) {
	slices.SortFunc(t.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.AtMost, a.AtMost), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.ID, b.ID), bytes.Compare(a.kept.bytes[:], b.kept.bytes[:]))
	})
	for _, k := range t.Keys[min(max(n, 0), len(t.Keys)):] {
		t.Missed = max(t.Missed, k.AtMost)
	}
	t.Keys = append([]Key{}, t.Keys[:min(max(n, 0), len(t.Keys))]...)
}

// Of returns the keys of a rule, all if it is empty.
func (t Top) Of(rule string) Top {
	if rule != "" {
		t.Keys = slices.DeleteFunc(slices.Clone(t.Keys), func(k Key) bool { return k.Rule != rule })
	}
	return t
}

// Merge returns the top n keys of two sketches, as of two instances: a key that one
// does not have may have had its Missed there.
func Merge(a, b Top, n int) Top {
	type name struct{ rule, id string }
	in := make(map[name]Key, len(b.Keys))
	for _, k := range b.Keys {
		in[name{k.Rule, k.ID}] = k
	}
	t := Top{Total: a.Total + b.Total, Missed: a.Missed + b.Missed, Sampled: max(a.Sampled, b.Sampled), Keys: make([]Key, 0, len(a.Keys)+len(b.Keys))}
	for _, k := range a.Keys {
		if other, both := in[name{k.Rule, k.ID}]; both {
			delete(in, name{k.Rule, k.ID})
			k.Text = cmp.Or(k.Text, other.Text)
			k.Count, k.AtLeast, k.AtMost = k.Count+other.Count, k.AtLeast+other.AtLeast, k.AtMost+other.AtMost
		} else {
			k.AtMost += b.Missed
		}
		t.Keys = append(t.Keys, k)
	}
	for _, k := range in {
		k.AtMost += a.Missed
		t.Keys = append(t.Keys, k)
	}
	t.cut(n)
	return t
}
