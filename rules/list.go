package rules

import (
	"net/netip"
	"slices"
	"time"

	"github.com/throttle-go/throttle/internal/glob"
)

// A list is an allow or a deny list, indexed for look-up.
type list struct {
	nets  netSet
	keys  []listedPart // one for each part
	plain bool         // an entry about the path is for paths that can be read in one way only
}

// listed is an entry and when it ends.
type listed struct {
	text  string
	until time.Time
}

// later returns the one of two entries about the same that ends later.
func later(a, b listed) listed {
	if a.until.IsZero() || !b.until.IsZero() && b.until.Before(a.until) {
		return a
	}
	return b
}

// listedPart are the values of one part.
type listedPart struct {
	part    int
	exact   map[string]listed // by value
	globs   []glob.Pattern
	entries []listed // of the globs
}

// find returns the first entry that is about the request.
func (l *list) find(q *question) (entry string, ok bool) {
	if entry, ok = l.nets.find(q.address, q.r.Now); ok {
		return entry, true
	}
	for i := range l.keys {
		k := &l.keys[i]
		ofPath := q.c.parts[k.part].ofPath()
		switch {
		case ofPath && l.plain && !q.plain():
		case ofPath && q.dotted():
			parts := []int{k.part}
			for _, path := range q.readings() {
				q.readAs(path, parts)
				if entry, ok = k.find(q); ok {
					break
				}
			}
			q.readAs("", parts)
		default:
			entry, ok = k.find(q)
		}
		if ok {
			return entry, true
		}
	}
	return "", false
}

// find returns the first entry that is about the value of the part.
func (k *listedPart) find(q *question) (entry string, ok bool) {
	value, ok := q.value(k.part)
	if !ok {
		return "", false
	}
	if e, ok := k.exact[value]; ok && !ended(e.until, q.r.Now) {
		return e.text, true
	}
	for j, g := range k.globs {
		if e := &k.entries[j]; g.Match(value) && !ended(e.until, q.r.Now) {
			return e.text, true
		}
	}
	return "", false
}

// add adds an entry about a part.
func (l *list) add(part int, g glob.Pattern, entry listed) {
	i := slices.IndexFunc(l.keys, func(k listedPart) bool { return k.part == part })
	if i < 0 {
		i = len(l.keys)
		l.keys = append(l.keys, listedPart{part: part, exact: map[string]listed{}})
	}
	if k := &l.keys[i]; g.Exact() {
		if old, twice := k.exact[g[0]]; twice {
			entry = later(old, entry)
		}
		k.exact[g[0]] = entry
	} else {
		k.globs, k.entries = append(k.globs, g), append(k.entries, entry)
	}
}

// A netSet finds the network of an address with one look-up for each length.
type netSet struct {
	bits [2][]int // lengths of those of IPv4 and of IPv6
	nets map[netip.Prefix]listed
}

func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

func (s *netSet) add(p netip.Prefix, entry listed) {
	if s.nets == nil {
		s.nets = map[netip.Prefix]listed{}
	}
	if old, twice := s.nets[p]; twice {
		entry = later(old, entry)
	}
	s.nets[p] = entry
	if bits := &s.bits[family(p.Addr())]; !slices.Contains(*bits, p.Bits()) {
		*bits = append(*bits, p.Bits())
	}
}

// find returns the entry of a network that contains a, which may be invalid.
func (s *netSet) find(a netip.Addr, now time.Time) (entry string, ok bool) {
	if !a.IsValid() {
		return "", false
	}
	for _, bits := range s.bits[family(a)] {
		p, _ := a.Prefix(bits) // a length of the family: no error
		if e, ok := s.nets[p]; ok && !ended(e.until, now) {
			return e.text, true
		}
	}
	return "", false
}

// anyOf reports whether one of the patterns matches, or there is none.
func anyOf(patterns []glob.Pattern, text string) bool {
	for _, g := range patterns {
		if g.Match(text) {
			return true
		}
	}
	return len(patterns) == 0
}

func anyMethod(methods []string, method string) bool {
	for _, m := range methods {
		if m == method {
			return true
		}
	}
	return len(methods) == 0
}
