package throttlehttp

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"

	"github.com/throttle-go/throttle/rules"
)

// RemoteIP returns the address that a request came from, for a key: an IPv4
// address, or the /64 network of an IPv6 address, as one caller usually has all
// of it. It reads no header field; behind a proxy it is the address of the proxy:
// use ClientIP there. A remote address that is not an IP address (a Unix socket)
// is returned unchanged. For other networks see ClientNetwork.
func RemoteIP(r *http.Request) string { return ClientNetwork{}.Key(r) }

// ClientIP returns a function that returns the key of a request behind trusted
// proxies: the address of the client by rules.ClientAddress, in the form of
// RemoteIP. A client cannot choose it.
func ClientIP(behind rules.Proxies) func(*http.Request) string {
	return ClientNetwork{Behind: behind}.Key
}

// ClientNetwork defines which addresses count as one caller. The zero value is
// that of RemoteIP.
//
//	perNetwork := throttlehttp.Limit(tenASecond, throttlehttp.ClientNetwork{IPv6: 56}.Key)
type ClientNetwork struct {
	// IPv4 and IPv6 are the bits of an address that identify a caller. If zero,
	// 32 and 64; they must not be below zero or above 32 and 128. Link-local
	// addresses (fe80::/10) are one caller each, on whichever interface.
	IPv4, IPv6 int
	// Behind lists the proxies that are trusted to state the client's address.
	// If zero, no header field is read.
	Behind rules.Proxies
}

// Key returns the network that a request came from, or the address if the
// network has no other: a key for [Limit] or an admit.Request.
func (n ClientNetwork) Key(r *http.Request) string {
	ip, ok := remote(r)
	if !ok {
		return r.RemoteAddr
	}
	if len(n.Behind.Trusted) > 0 {
		ip = rules.ClientAddress(ip, n.Behind, r.Header.Values)
	}
	return rules.Network(ip, cmp.Or(n.IPv4, 32), cmp.Or(n.IPv6, 64))
}

// remote returns the address that a request came from. There is none without a port
// unless some middleware has put what a proxy said in its place.
func remote(r *http.Request) (a netip.Addr, ok bool) {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return from.Addr(), true
	}
	text := r.RemoteAddr
	if inner, found := strings.CutPrefix(text, "["); found {
		text = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil
}
