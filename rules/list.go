package rules

import (
	"net/netip"
	"slices"
)

// A list is an allow or a deny list, indexed for look-up.
type list struct {
	nets  netSet
	keys  []listed // one for each part
	plain bool     // an entry about the path is for paths that can be read in one way only
}

// listed are the values of one part.
type listed struct {
	part  int
	exact map[string]string // value to the entry
	globs []glob
	texts []string // entries of the globs
}

// find returns the first entry that is about the request.
func (l *list) find(q *question) (entry string, ok bool) {
	if entry, ok = l.nets.find(q.address); ok {
		return entry, true
	}
	for i := range l.keys {
		k := &l.keys[i]
		value, ok := q.value(k.part)
		if !ok || l.plain && q.c.parts[k.part].ofPath() && !q.plain() {
			continue
		}
		if entry, ok = k.exact[value]; ok {
			return entry, true
		}
		for j, g := range k.globs {
			if g.match(value) {
				return k.texts[j], true
			}
		}
	}
	return "", false
}

// add adds an entry about a part.
func (l *list) add(part int, g glob, entry string) {
	i := slices.IndexFunc(l.keys, func(k listed) bool { return k.part == part })
	if i < 0 {
		i = len(l.keys)
		l.keys = append(l.keys, listed{part: part, exact: map[string]string{}})
	}
	if k := &l.keys[i]; g.exact() {
		k.exact[g[0]] = entry
	} else {
		k.globs, k.texts = append(k.globs, g), append(k.texts, entry)
	}
}

// A netSet finds the network of an address with one look-up for each length.
type netSet struct {
	bits [2][]int // lengths of those of IPv4 and of IPv6
	nets map[netip.Prefix]string
}

func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

func (s *netSet) add(p netip.Prefix, entry string) {
	if s.nets == nil {
		s.nets = map[netip.Prefix]string{}
	}
	s.nets[p] = entry
	if bits := &s.bits[family(p.Addr())]; !slices.Contains(*bits, p.Bits()) {
		*bits = append(*bits, p.Bits())
	}
}

// find returns the entry of a network that contains a, which may be invalid.
func (s *netSet) find(a netip.Addr) (entry string, ok bool) {
	if !a.IsValid() {
		return "", false
	}
	for _, bits := range s.bits[family(a)] {
		p, _ := a.Prefix(bits) // a length of the family: no error
		if entry, ok = s.nets[p]; ok {
			return entry, true
		}
	}
	return "", false
}
