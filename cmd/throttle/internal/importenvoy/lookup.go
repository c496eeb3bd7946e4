package importenvoy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
)

// The reference looks up an entry among the descriptors of a level by one text,
// KEY_VALUE: first one of exactly this text, then those with '*' in the order of the
// file, then one of the text KEY. So an entry user=id finds the descriptor of the key
// user_id, and an entry user_id=5 the one of the key user and the value *.

// way is how the entries of one key lead to a descriptor.
type way struct {
	key     string
	pattern string // of the value; * is any
	glob    glob.Pattern
	not     []string // patterns of values that lead elsewhere
	before  []way    // those that are tried before
	to      *node
}

func newWay(key, pattern string, to *node) way {
	return way{key: key, pattern: pattern, glob: glob.Of(pattern), to: to}
}

// foreign reports whether the key is not that of the descriptor.
func (w *way) foreign() bool { return w.key != w.to.key }

// The ranks of the ways of one key, in the order in which the reference tries them.
const (
	exact = iota
	starred
	bare
)

func (w *way) rank() int {
	switch {
	case w.to.text == w.key:
		return bare
	case w.to.pattern():
		return starred
	}
	return exact
}

// ways returns those that lead to the descriptors of a level, in their order. What is
// tried before each is not yet taken away, see without.
func ways(level []*node) (all []way) {
	byKey := map[string][]way{}
	for _, to := range level {
		byKey[to.key] = nil
	}
	for _, to := range level {
		for _, w := range waysTo(to, byKey) {
			byKey[w.key] = append(byKey[w.key], w)
		}
	}
	found := map[*node][]way{}
	for _, tried := range byKey {
		slices.SortStableFunc(tried, func(a, b way) int { return a.rank() - b.rank() })
		for i, w := range tried {
			if w.rank() != exact { // no two of which are the same
				w.before = tried[:i]
			}
			found[w.to] = append(found[w.to], w)
		}
	}
	for _, to := range level {
		slices.SortFunc(found[to], func(a, b way) int {
			switch {
			case a.foreign() && !b.foreign():
				return 1
			case !a.foreign() && b.foreign():
				return -1
			}
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.pattern, b.pattern))
		})
		all = append(all, found[to]...)
	}
	return all
}

// waysTo returns the ways to a descriptor from each of the keys of its level.
func waysTo(to *node, keys map[string][]way) (all []way) {
	if strings.Contains(to.key, "*") { // which stands for itself
		return []way{newWay(to.key, cmp.Or(to.value, "*"), to)}
	}
	literal, _, pattern := strings.Cut(to.text, "*")
	for i := range literal {
		key := literal[:i]
		if _, is := keys[key]; is && literal[i] == '_' && to.text[i+1:] != "" {
			all = append(all, newWay(key, to.text[i+1:], to))
		}
	}
	if _, is := keys[to.text]; is {
		all = append(all, newWay(to.text, "*", to))
	}
	if !pattern {
		return all
	}
	for key := range keys {
		if begin := key + "_"; len(begin) > len(literal) && strings.HasPrefix(begin, literal) {
			for _, rest := range after(to.text, begin) {
				all = append(all, newWay(key, rest, to))
			}
		}
	}
	return all
}

// after returns patterns of what may follow a beginning, for the whole to match a
// pattern.
func after(pattern, begin string) (rest []string) {
	at := []int{0} // in the pattern, after each byte
	for i := range len(begin) {
		var next []int
		for _, p := range at {
			for ; p < len(pattern) && pattern[p] == '*'; p++ {
				next = append(next, p)
			}
			if p < len(pattern) && pattern[p] == begin[i] {
				next = append(next, p+1)
			}
		}
		slices.Sort(next)
		at = slices.Compact(next)
	}
	for _, p := range at {
		if p < len(pattern) {
			rest = append(rest, pattern[p:])
		}
	}
	return rest
}

// mostStars bounds the patterns with '*' that a rule may leave out.
const mostStars = 100

// without sets which values of the pattern lead elsewhere. If all do, none is true. If
// they are too many for a rule, ok is false.
func (w *way) without() (none, ok bool) {
	var stars []*way
	var values []string
	for i := range w.before {
		b := &w.before[i]
		covers := func(other *way) bool { return other.glob.Match(b.pattern) }
		switch {
		case b.glob.Match(w.pattern): // '*' in a text is matched by '*' alone
			return true, true
		case disjoint(b.glob, w.glob):
		case b.glob.Exact():
			values = append(values, b.pattern)
		case !slices.ContainsFunc(stars, covers):
			if stars = append(stars, b); len(stars) > mostStars {
				return false, false
			}
		}
	}
	for _, value := range values {
		if !slices.ContainsFunc(stars, func(s *way) bool { return s.glob.Match(value) }) {
			w.not = append(w.not, value)
		}
	}
	for _, s := range stars {
		w.not = append(w.not, s.pattern)
	}
	return false, true
}

// disjoint reports whether no text matches both patterns, as far as their ends tell.
func disjoint(p, q glob.Pattern) bool {
	if p.Exact() {
		return !q.Match(p[0])
	}
	n := min(len(p[0]), len(q[0]))
	end, other := p[len(p)-1], q[len(q)-1]
	m := min(len(end), len(other))
	return p[0][:n] != q[0][:n] || end[len(end)-m:] != other[len(other)-m:]
}
