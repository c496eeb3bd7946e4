package gateway

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// itself reports whether a target is the socket of a gateway: each request would come
// back to it. Names are not resolved, but for localhost.
func itself(to *url.URL, listen string) bool {
	host, service, err := net.SplitHostPort(listen)
	if err != nil || to.Scheme == "dns+srv" {
		return false
	}
	standard := "80"
	if to.Scheme == "https" {
		standard = "443"
	}
	own, err := net.LookupPort("tcp", service)
	other, errOther := net.LookupPort("tcp", cmp.Or(to.Port(), standard))
	if err != nil || errOther != nil || own != other {
		return false
	}
	at, target := addressNamed(host), addressNamed(to.Hostname())
	switch {
	case !target.IsValid():
		return strings.EqualFold(host, to.Hostname())
	case host == "" || at == netip.IPv6Unspecified():
		return target.IsLoopback()
	case at == netip.IPv4Unspecified():
		return target.IsLoopback() && target.Is4()
	}
	return at == target
}

// addressNamed is the address that a connection to a host has; invalid for a name.
func addressNamed(host string) netip.Addr {
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	a, _ := netip.ParseAddr(host) // invalid for a name
	return a.Unmap()
}
