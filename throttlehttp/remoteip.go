package throttlehttp

import (
	"net/http"
	"net/netip"

	"github.com/throttle-go/throttle/rules"
)

// RemoteIP returns the address that a request came from, for Handler.Key: an
// IPv4 address, or the /64 network of an IPv6 address, as one caller usually
// has all of it. It believes no header field; behind a proxy it is the address
// of the proxy: use ClientIP there. What is not an IP address (a Unix socket)
// is returned as it is.
func RemoteIP(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return clientKey(from.Addr())
}

// ClientIP returns a Handler.Key for a Handler behind trusted proxies: the
// address of the client by rules.ClientAddress, in the form of RemoteIP. A
// client cannot choose it.
func ClientIP(behind rules.Proxies) func(*http.Request) string {
	return func(r *http.Request) string {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr
		}
		return clientKey(rules.ClientAddress(from.Addr(), behind, r.Header.Values))
	}
}

// clientKey returns the key of an address.
func clientKey(ip netip.Addr) string {
	ip = ip.Unmap()
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
