package throttlehttp

import (
	"net/http"
	"net/netip"
)

// RemoteIP is the address that a request came from, as a Handler's Key: an
// IPv4 address, or the /64 network of an IPv6 address, as whoever has one
// address of it usually has them all. It believes no header field; behind a
// proxy it is the proxy's address, and a Key that trusts this proxy is needed.
// What is not an IP address (a Unix socket) is returned as it is.
func RemoteIP(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip := from.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
