package intercept

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// A Pattern is an entry of a list of targets: a host, all names below one, all names, or
// a network, each with a port; or everything.
type Pattern struct {
	host    string // a Target.Host; empty if it is one of the others
	below   string // of *.NAME: NAME with a dot before it
	any     bool   // of *
	network netip.Prefix
	port    uint16
	all     bool // of Everything
}

// ParsePattern reads an entry: NAME, *.NAME for all names below, * for all names, an IP
// address or a network as 10.0.0.0/8, each with :PORT, which is 443 if it is not there.
func ParsePattern(text string) (p Pattern, err error) {
	if strings.Contains(text, "/") {
		return parseNetwork(text)
	}
	name, port, _ := strings.Cut(text, ":")
	if name != "*" && !strings.HasPrefix(name, "*.") {
		t, err := ParseHost(text)
		return Pattern{host: t.Host, port: t.Port}, err
	}
	p.port = httpsPort
	if len(name) < len(text) {
		if p.port, err = parsePort(port); err != nil {
			return Pattern{}, err
		}
	}
	if p.any = name == "*"; p.any {
		return p, nil
	}
	host, err := parseHost(name[len("*."):])
	p.below = "." + host
	return p, err
}

var errNetwork = errors.New("want a network as 10.0.0.0/8 or fd00::/8, and after it nothing or :PORT")

// parseNetwork reads a network, and a port behind it.
func parseNetwork(text string) (Pattern, error) {
	p := Pattern{port: httpsPort}
	slash := strings.IndexByte(text, '/')
	bits, port, ported := strings.Cut(text[slash:], ":")
	n, err := netip.ParsePrefix(text[:slash] + bits)
	if err != nil || n != n.Masked() || n.Addr().Is4In6() {
		return Pattern{}, errNetwork
	}
	if ported {
		if p.port, err = parsePort(port); err != nil {
			return Pattern{}, err
		}
	}
	p.network = n
	return p, nil
}

// matches reports whether t is one of those that the entry stands for.
func (p Pattern) matches(t Target) bool { return p.all || p.port == t.Port && p.matchesHost(t) }

// matchesHost is matches without the port.
func (p Pattern) matchesHost(t Target) bool {
	a := t.Addr()
	switch {
	case p.network.IsValid():
		return a.IsValid() && p.network.Contains(a)
	case p.any:
		return !a.IsValid()
	case p.below != "":
		return !a.IsValid() && strings.HasSuffix(t.Host, p.below)
	}
	return p.host == t.Host
}

// A List says which targets are allowed. The zero List allows none.
type List []Pattern

// ParseList reads entries. The error quotes the one that is wrong.
func ParseList(texts []string) (list List, err error) {
	for _, text := range texts {
		p, err := ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", words.Quote(text), err)
		}
		list = append(list, p)
	}
	return list, nil
}

// Everything is a List that allows every target, of every port, and every address.
func Everything() List { return List{{all: true}} }

// Allows reports whether a target is listed.
func (l List) Allows(t Target) bool {
	for _, p := range l {
		if p.matches(t) {
			return true
		}
	}
	return false
}

// ports are those for which the host of t is listed.
func (l List) ports(t Target) (all []uint16) {
	for _, p := range l {
		if p.matchesHost(t) {
			all = append(all, p.port)
		}
	}
	return all
}

// AllowsAddr reports whether a connection may be made to an address that a listed host has:
// a public one, or one that is listed itself.
func (l List) AllowsAddr(a netip.AddrPort) bool {
	at := a.Addr().Unmap().WithZone("")
	return Public(at) || l.Allows(Target{Host: at.String(), Port: a.Port()})
}
