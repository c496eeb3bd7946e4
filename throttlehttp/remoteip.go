package throttlehttp

import (
	"net/http"
	"net/netip"

	"github.com/throttle-go/throttle/rules"
)

// RemoteIP is the address that a request came from, as a Handler's Key: an
// IPv4 address, or the /64 network of an IPv6 address, as whoever has one
// address of it usually has them all. It believes no header field; behind a
// proxy it is the proxy's address: use ClientIP there.
// What is not an IP address (a Unix socket) is returned as it is.
func RemoteIP(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return account(from.Addr())
}

// ClientIP is RemoteIP behind proxies that are trusted: the address of the client
// by rules.ClientAddress, as a Handler's Key. A client can not choose it.
func ClientIP(behind rules.Proxies) func(*http.Request) string {
	return func(r *http.Request) string {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr
		}
		return account(rules.ClientAddress(from.Addr(), behind, r.Header.Values))
	}
}

// account is on whose account an address goes.
func account(ip netip.Addr) string {
	ip = ip.Unmap()
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
