package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"net/textproto"
	"path"
	"strconv"
	"strings"
)

// A part is one part of a key.
type part struct {
	kind partKind
	text string // as in a Key; the name of a header field in its usual form
	name string // of the header field or the program's value; the key of the entry
	n    int    // which segment of the path
}

// ofPath reports whether the part is the path or a segment of it.
func (p part) ofPath() bool { return p.kind == byPath || p.kind == bySegment }

// secret reports whether values of the part might be secrets.
func (p part) secret() bool {
	return p.kind == byHeader || p.kind == byValue || p.kind == byDescriptor || p.kind == byEntry
}

type partKind uint8

const (
	byValue partKind = iota
	byAddress
	byClient
	byHeader
	byHost
	byMethod
	byPath
	bySegment
	byDomain
	byDescriptor
	byEntry
)

var simpleParts = map[string]partKind{
	"address": byAddress, "client": byClient, "host": byHost, "method": byMethod, "path": byPath,
	"domain": byDomain, "descriptor": byDescriptor,
}

const (
	maxText    = 256 // bytes of a pattern or a name of a part
	maxSegment = 32
)

// parsePart reads a part, or returns what is wrong with it.
func parsePart(text string, known map[string]bool) (p part, what string) {
	if kind, ok := simpleParts[text]; ok {
		return part{kind: kind, text: text}, ""
	}
	if name, ok := strings.CutPrefix(text, "header:"); ok {
		if !isToken(name) {
			return part{}, "header: and the name of a field go together, as in header:X-Tenant"
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		return part{kind: byHeader, text: "header:" + name, name: name}, ""
	}
	if digits, ok := strings.CutPrefix(text, "path:"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > maxSegment || strconv.Itoa(n) != digits {
			return part{}, "path: and a number from 1 to 32 go together, path:1 being the first segment"
		}
		return part{kind: bySegment, text: text, n: n}, ""
	}
	if key, ok := strings.CutPrefix(text, "entry:"); ok {
		if !isToken(key) {
			return part{}, "entry: and the key of an entry go together, as in entry:remote_address; write descriptor for a key with other signs"
		}
		return part{kind: byEntry, text: text, name: key}, ""
	}
	if known[text] {
		return part{kind: byValue, text: text, name: text}, ""
	}
	what = "unknown part " + strconv.Quote(clip(text, 40)) + "; write address, client, header:NAME, host, method, path, path:N, of a descriptor domain, descriptor, entry:KEY"
	if len(known) > 0 {
		what += ", or " + strings.Join(sortedNames(known), ", ")
	}
	return part{}, what
}

// isToken reports whether name may name a header field (RFC 9110, 5.6.2); one
// with '+' could not be part of a Key.
func isToken(name string) bool {
	odd := func(r rune) bool { return !isWord(r) && !strings.ContainsRune("!#$%&'*^`|~", r) }
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, odd)
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// isName reports whether text may name a rule or a version.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool { return !isWord(r) })
}

// clip returns text, or its beginning.
func clip(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}

// hostOf returns the host without port and final dot, in small letters.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// pathOf returns p without "//", "/./" and "/x/../", so that a rule is not
// evaded by another way to write a path. A final slash stays.
func pathOf(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	clean := path.Clean(p)
	switch {
	case !strings.HasSuffix(p, "/") || clean == "/":
		return clean
	case len(p) == len(clean)+1 && strings.HasPrefix(p, clean):
		return p // the usual one; nothing to allocate
	}
	return clean + "/"
}

// segment returns the n-th segment of a cleaned path, from 1, or "".
func segment(p string, n int) string {
	for range n {
		i := strings.IndexByte(p, '/')
		if i < 0 {
			return ""
		}
		p = p[i+1:]
	}
	p, _, _ = strings.Cut(p, "/")
	return p
}

// Keys of the Store. They are printable ASCII and tell all apart:
//
//	RULE/LIMIT/PART=VALUE/PART=VALUE
//
// Names of rules and parts have neither '/' nor '='. In values all but letters,
// digits and a few signs is written %XX. A value that is longer than 64 bytes,
// or might be a secret (of a header, of the program, of a descriptor), is "%~" and
// 128 bits of its SHA-256. A missing one is nothing.

const longestValue = 64

// appendValue appends a value to a key.
func appendValue(key []byte, p part, value string) []byte {
	if len(value) > longestValue || value != "" && p.secret() {
		sum := sha256.Sum256([]byte(value))
		return base64.RawURLEncoding.AppendEncode(append(key, "%~"...), sum[:16])
	}
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		if c := value[i]; isWord(rune(c)) || c == ':' || c == '@' {
			key = append(key, c)
		} else {
			key = append(key, '%', hex[c>>4], hex[c&15])
		}
	}
	return key
}

// addressBits are how many bits of an address make one client.
type addressBits struct{ v4, v6 int }

// bitsOf returns those of a Set.
func bitsOf(s Set) addressBits {
	return addressBits{cmp.Or(s.IPv4Prefix, 32), cmp.Or(s.IPv6Prefix, defaultIPv6)}
}

// of returns how many bits of a tell clients apart. All hosts of a link are in
// one network of link-local addresses.
func (b addressBits) of(a netip.Addr) int {
	switch {
	case a.Is4():
		return b.v4
	case a.IsLinkLocalUnicast():
		return a.BitLen()
	}
	return b.v6
}

// appendAddress appends an address to a key, cut to the bits that make one
// client.
func appendAddress(key []byte, a netip.Addr, bits addressBits) []byte {
	p, _ := a.Prefix(bits.of(a)) // not above its length, see Set
	return p.Addr().AppendTo(key)
}

// Network returns the key of a caller at an address: the address itself, or its
// network of ipv4 or ipv6 bits. A number of bits below zero counts as zero, one
// above the length of the address as the whole address. An IPv4 address in IPv6
// form counts as IPv4; link-local addresses (fe80::/10) are one caller each.
// Zones are left out.
func Network(a netip.Addr, ipv4, ipv6 int) string {
	a = a.Unmap().WithZone("")
	bits := addressBits{ipv4, ipv6}.of(a)
	if bits >= a.BitLen() {
		return a.String()
	}
	return netip.PrefixFrom(a, max(bits, 0)).Masked().String()
}
