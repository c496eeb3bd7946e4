package recent

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/rules"
)

// view is what one version of the rules looks at in requests, and so what is kept of
// them. Values of clients are kept as hashes, unless a pattern of the rules matches:
// the rules could not be replayed otherwise.
type view struct {
	of       *rules.Compiled
	fields   []string                  // of the header, in order
	parts    []string                  // the same, as header:NAME
	number   int                       // of these fields, see Decisions.fields
	patterns map[string][]glob.Pattern // by part: client, header:NAME
	networks map[netip.Prefix]bool
	lengths  []int // of the networks, each once
	literals map[string]bool
	// described are the rules for descriptors, in their order, without those that are off.
	described []string
	ipv4      int // bits of an address that make one client
	ipv6      int
}

const (
	maxFields   = 16  // of the header, kept of each request
	maxPatterns = 256 // of one part
)

// viewOf returns the view of a version.
func viewOf(c *rules.Compiled) *view {
	set := c.Set()
	v := &view{
		of: c, patterns: map[string][]glob.Pattern{}, networks: map[netip.Prefix]bool{}, literals: map[string]bool{},
		ipv4: cmp.Or(set.IPv4Prefix, 32), ipv6: cmp.Or(set.IPv6Prefix, 64),
	}
	fields := map[string]bool{}
	for _, e := range slices.Concat(set.Deny, set.Allow) {
		part, pattern, found := strings.Cut(e.Text, "=")
		if !found {
			part, pattern = "address", e.Text
		}
		v.names(part, pattern, fields)
	}
	for i := range set.Rules {
		v.rule(&set.Rules[i], fields)
	}
	v.fields = slices.Sorted(maps.Keys(fields))
	v.fields = v.fields[:min(len(v.fields), maxFields)]
	for _, name := range v.fields {
		v.parts = append(v.parts, "header:"+name)
	}
	for n := range v.networks {
		if !slices.Contains(v.lengths, n.Bits()) {
			v.lengths = append(v.lengths, n.Bits())
		}
	}
	return v
}

// rule adds what a rule looks at.
func (v *view) rule(r *rules.Rule, fields map[string]bool) {
	if (len(r.Match.Domains) > 0 || len(r.Match.Descriptor) > 0) && !r.Off {
		v.described = append(v.described, r.Name)
	}
	for name, pattern := range r.Match.Headers {
		v.names("header:"+name, pattern, fields)
	}
	for _, part := range r.Key {
		if name, ok := strings.CutPrefix(part, "header:"); ok {
			fields[textproto.CanonicalMIMEHeaderKey(name)] = true
		}
	}
	for _, o := range r.Overrides {
		for i, pattern := range o.Key {
			if i < len(r.Key) {
				v.names(r.Key[i], pattern, fields)
			}
		}
	}
}

// names adds a pattern of a part of requests.
func (v *view) names(part, pattern string, fields map[string]bool) {
	name, isField := strings.CutPrefix(part, "header:")
	if isField {
		name = textproto.CanonicalMIMEHeaderKey(name)
		fields[name] = true
		part = "header:" + name
	}
	switch {
	case part == "address":
		if n, err := netip.ParsePrefix(pattern); err == nil {
			v.networks[n.Masked()] = true
		} else if a, err := netip.ParseAddr(pattern); err == nil {
			v.networks[netip.PrefixFrom(a, a.BitLen())] = true
		}
	case !isField && part != "client":
	case !strings.Contains(pattern, "*"):
		v.literals[pattern] = true
	case strings.Trim(pattern, "*") != "" && len(v.patterns[part]) < maxPatterns:
		v.patterns[part] = append(v.patterns[part], glob.Of(pattern))
	}
}

// shows reports whether a value of a part is kept as it is.
func (v *view) shows(part, value string) bool {
	return slices.ContainsFunc(v.patterns[part], func(p glob.Pattern) bool { return p.Match(value) })
}

// address returns what is kept of an address: itself, if the rules name it or a
// network around it; or a hash in its place, the same for all of one client. That is
// an address of fd00::/8 (RFC 4193), which differs in the bits that tell clients
// apart.
func (v *view) address(seed maphash.Seed, a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	for _, bits := range v.lengths {
		if n, err := a.Prefix(bits); err == nil && v.networks[n] {
			return a
		}
	}
	bits := v.ipv6
	if a.Is4() {
		bits = v.ipv4
	} else if a.IsLinkLocalUnicast() {
		bits = a.BitLen()
	}
	n, err := a.Prefix(bits)
	if err != nil {
		return a
	}
	h := maphash.Comparable(seed, n)
	out := [16]byte{0xfd}
	for i := 1; i < v.ipv6/8; i++ {
		out[i] = byte(h >> (8 * (i - 1) % 64))
	}
	return netip.AddrFrom16(out)
}
