package rules

import (
	"fmt"
	"net/netip"
	"strings"
)

// Networks are networks of addresses. In JSON a single address, and a single
// value instead of a list, are accepted too.
type Networks []netip.Prefix

// parseNetwork reads an address or a network, or says what is wrong.
func parseNetwork(s string) (p netip.Prefix, what string) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), ""
	}
	if i := strings.IndexByte(s, '%'); i >= 0 && strings.Contains(s, ":") {
		return netip.Prefix{}, fmt.Sprintf("%.60q has the zone of an interface; write %.60s, which is that address on any interface", s, s[:i])
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Sprintf("%.60q is neither an address nor a network; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32", s)
	}
	return p, networkFlaw(p)
}

// networkFlaw is what is wrong with a network, or "".
func networkFlaw(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "not a network; write 10.0.0.0/8"
	case p != p.Masked():
		return fmt.Sprintf("%v has bits set beyond its length; write %v", p, p.Masked())
	case p.Addr().Is4In6():
		return fmt.Sprintf("%v is an IPv4 network in the form of IPv6; write it as IPv4", p)
	}
	return ""
}

// has reports whether one of them contains a, which is unmapped.
func (w Networks) has(a netip.Addr) bool {
	for _, p := range w {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Proxies are the proxies that are trusted to state the address of the client.
type Proxies struct {
	// Trusted lists the addresses of the proxies, at most 1,000 networks, none
	// of which is the whole Internet. If empty, no header field is read.
	Trusted Networks `json:"trusted"`
	// Header is the one field in which they state it: "X-Forwarded-For", or
	// "Forwarded" (RFC 7239). If empty, X-Forwarded-For. The other field is
	// never read, as the proxies do not correct what the client sends in it.
	Header string `json:"header,omitzero"`
}

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
	// maxHops bounds the proxies in a row that are believed.
	maxHops = 32
)

// ClientAddress returns the address of the client of a request that came from
// remote; values returns all lines of a header field in order.
//
// While the address at hand is that of a trusted proxy, the next one is the
// address that this proxy has added, that is, the last in the field not yet
// read. The first that is not a trusted proxy is the client, and what stands
// left of it, which the client may have written, is not read. So the client can
// never choose its address. Where an entry is malformed, or hidden ("unknown",
// "_x"), or none is left, the answer is the proxy that added it; after 32
// proxies it is the last of these.
//
// The answer is unmapped (192.0.2.1 for ::ffff:192.0.2.1) and has no zone. It
// is a function of its arguments and safe for concurrent use.
func ClientAddress(remote netip.Addr, p Proxies, values func(name string) []string) netip.Addr {
	at := plain(remote)
	if !p.Trusted.has(at) || values == nil {
		return at
	}
	name, read := forwardedFor, parseHop
	if strings.EqualFold(p.Header, forwarded) {
		name, read = forwarded, parseForwarded
	}
	lines := values(name)
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var last string
			rest, last, more = cutLast(rest, name == forwarded)
			hop, ok := read(last)
			if !ok {
				return at
			}
			at = hop
			if hops++; hops == maxHops || !p.Trusted.has(at) {
				return at
			}
		}
	}
	return at
}

// plain returns a without its zone, as IPv4 if it is that.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// cutLast cuts off what follows the last comma; more reports whether there is
// one. With quotes, a comma between two of them is none. Quotes are counted
// from the right, as an odd one further left may be the client's.
func cutLast(text string, quotes bool) (rest, last string, more bool) {
	inside := false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case quotes && text[i] == '"' && !escaped(text, i):
			inside = !inside
		case text[i] == ',' && !inside:
			return text[:i], text[i+1:], true
		}
	}
	return "", text, false
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(text string, i int) bool {
	n := 0
	for i > n && text[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// parseHop reads an entry of X-Forwarded-For: an address, with a port or in
// brackets or not.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.Trim(text, " \t")
	port := ""
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, port, ok = strings.Cut(inner, "]"); !ok || !strings.Contains(text, ":") {
			return netip.Addr{}, false
		}
	} else if strings.Count(text, ":") == 1 {
		i := strings.IndexByte(text, ':')
		text, port = text[:i], text[i:]
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !isPort(port) {
		return netip.Addr{}, false
	}
	return plain(a), true
}

// isPort reports whether text is nothing, or a colon and a port.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	digits, ok := strings.CutPrefix(text, ":")
	return ok && digits != "" && len(digits) <= 5 && strings.Trim(digits, "0123456789") == ""
}

// parseForwarded reads an element of Forwarded, which must have exactly one
// "for".
func parseForwarded(text string) (a netip.Addr, ok bool) {
	for more := true; more; {
		var pair string
		pair, text, more = cutPair(text)
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if ok {
			return netip.Addr{}, false
		}
		if a, ok = parseHop(value); !ok {
			return netip.Addr{}, false
		}
	}
	return a, ok
}

// cutPair cuts at the first semicolon outside quotes.
func cutPair(text string) (pair, rest string, more bool) {
	inside := false
	for i := range len(text) {
		switch {
		case text[i] == '"' && !escaped(text, i):
			inside = !inside
		case text[i] == ';' && !inside:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// flaw returns what is wrong with p, and where in it.
func (p Proxies) flaw() (path, what string) {
	switch {
	case len(p.Trusted) == 0 && p.Header == "":
		return "", ""
	case len(p.Trusted) == 0:
		return "", "no proxy is trusted, so no header is read; list them in trusted"
	case len(p.Trusted) > maxProxies:
		return "trusted", "more than 1000 networks"
	case p.Header != "" && !strings.EqualFold(p.Header, forwardedFor) && !strings.EqualFold(p.Header, forwarded):
		return "header", "must be X-Forwarded-For or Forwarded"
	}
	for i, n := range p.Trusted {
		what := networkFlaw(n)
		if what == "" && n.Bits() == 0 {
			what = "trusts everybody, so that clients could choose their address; list the proxies"
		}
		if what != "" {
			return item("trusted", i), what
		}
	}
	if p.Trusted.everybody() {
		return "trusted", "these networks together are everybody, so that clients could choose their address; list the proxies"
	}
	return "", ""
}

// everybody reports whether the networks together have all addresses that a
// client may come from, of IPv4 or of IPv6.
func (w Networks) everybody() bool {
	for _, all := range [][]string{{"0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3"}, {"2000::/3"}} {
		covered := true
		for _, p := range all { // unicast
			covered = covered && w.cover(netip.MustParsePrefix(p))
		}
		if covered {
			return true
		}
	}
	return false
}

// cover reports whether the networks together have all of p.
func (w Networks) cover(p netip.Prefix) bool {
	var inside Networks
	for _, n := range w {
		switch {
		case n.Bits() <= p.Bits() && n.Contains(p.Addr()):
			return true
		case p.Contains(n.Addr()):
			inside = append(inside, n)
		}
	}
	if len(inside) < 2 { // each is smaller than p
		return false
	}
	lower, upper := halves(p)
	return inside.cover(lower) && inside.cover(upper)
}

// halves returns the two networks that p consists of.
func halves(p netip.Prefix) (lower, upper netip.Prefix) {
	bits := p.Bits() + 1
	b := p.Addr().As16()
	i := bits - 1 + 128 - p.Addr().BitLen()
	b[i/8] |= 0x80 >> (i % 8)
	a := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		a = a.Unmap()
	}
	return netip.PrefixFrom(p.Addr(), bits), netip.PrefixFrom(a, bits)
}
