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
// RemoteIP. A client cannot choose it: ClientIP panics if behind is one that a
// file of rules may not have, such as one that trusts 0.0.0.0/0, or whose Header
// is another than X-Forwarded-For and Forwarded.
func ClientIP(behind rules.Proxies) func(*http.Request) string {
	if _, err := rules.Compile(rules.Set{Proxies: behind}); err != nil {
		panic("throttlehttp: ClientIP: " + strings.TrimPrefix(err.Error(), "rules: "))
	}
	return ClientNetwork{Behind: behind}.Key
}

// ClientNetwork makes a key of the IP address of a client: its method Key returns
// the network that the address is in, so that all clients of one network have one
// key and share a limit. The zero value does as RemoteIP does.
//
//	perNetwork := throttlehttp.Limit(tenASecond, throttlehttp.ClientNetwork{IPv6: 56}.Key)
type ClientNetwork struct {
	// IPv4 and IPv6 are the prefix lengths, in bits, of the networks that have one
	// key each. If IPv4 is zero, 32: each address has its own key. If IPv6 is zero,
	// 64. Below zero, all addresses of that version have the same key; lengths
	// above 32 and 128 count as these. A link-local address (fe80::/10) always has
	// its own key, without the zone.
	IPv4, IPv6 int
	// Behind lists the proxies that are trusted to state the client's address.
	// If zero, no header field is read.
	Behind rules.Proxies
}

// Key returns the network of the client of r, such as "2001:db8:1:200::/56", or
// the address alone if it has a key of its own: a key for [Limit] or an
// admit.Request. If RemoteAddr is not an IP address, Key returns it unchanged.
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
