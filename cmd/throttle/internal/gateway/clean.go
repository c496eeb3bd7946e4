package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/rules"
)

// clean removes from a request what its sender must not say: the fields that only
// a trusted proxy may set, those that its Connection field names, and those with
// '_' in their names, which many services take for others. It is done before the
// rules see the request, so that they see what the upstream will. It returns the
// status of a refusal, or 0.
func (x *exchange) clean(r *http.Request) int {
	if r.Method == http.MethodConnect { // this is no forward proxy
		return http.StatusMethodNotAllowed
	}
	// net/http takes any method, host and query in HTTP/2. A method or a query with a space
	// would be a request line of its own to the upstream, and none is the upstream's fault.
	if !token(r.Method) || strings.ContainsFunc(r.Host, beyondASCII) || strings.IndexByte(r.URL.RawQuery, ' ') >= 0 {
		return http.StatusBadRequest
	}
	if r.URL.Opaque != "" || r.URL.Path == "" { // net/http would write an opaque URL as it is, whatever the path
		return http.StatusBadRequest
	}
	for _, b := range []*Believed{&x.g.cfg.Identity, &x.g.cfg.Priority} {
		if b.Header == "" {
			continue
		}
		lines := r.Header[b.Header]
		switch {
		case !has(b.From, x.peer):
			delete(r.Header, b.Header)
		case len(lines) > 1: // the proxy has added to what its client sent
			return http.StatusBadRequest
		}
	}
	x.unlist(r)
	for name := range r.Header {
		if x.spoofs(name) {
			delete(r.Header, name)
		}
	}
	for name := range r.Trailer { // declared; others may follow
		if !token(name) || !x.trails(name) {
			delete(r.Trailer, name)
		}
	}
	return 0
}

// token reports whether a text is a token of RFC 9110, as methods and names of fields are.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func beyondASCII(c rune) bool { return c >= 0x80 }

// trails reports whether a field may follow the body. No proxy states there what
// only a proxy may, and some services read it as if it stood in the header.
func (x *exchange) trails(name string) bool {
	return !forged(name) && !slices.Contains(x.g.names, name) && !x.spoofs(name)
}

// spoofs reports whether a field must not be passed on.
func (x *exchange) spoofs(name string) bool {
	if strings.IndexByte(name, '_') >= 0 {
		alias := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		return !x.g.cfg.Underscores || slices.Contains(x.g.names, alias) || forged(alias)
	}
	return forged(name) && !x.trusts()
}

// forged reports whether a field states what only a proxy can know: whose a
// request is, or what it was before.
func forged(name string) bool {
	switch name {
	case "Forwarded", "X-Real-Ip", "True-Client-Ip", "Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip",
		"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Fastly-Client-Ip", "X-Envoy-External-Address",
		"X-Original-Forwarded-For", "X-Original-Url", "X-Original-Host", "X-Rewrite-Url":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded")
}

// Removes says why the rules see a header field in no request, or is empty: for a key of it
// all requests would be one. trusting says that there are trusted proxies, which may set
// those that state an address.
func Removes(name string, underscores, trusting bool) string {
	switch name = http.CanonicalHeaderKey(name); {
	case strings.IndexByte(name, '_') >= 0 && !underscores:
		return "the gateway removes fields with _ in their names"
	case forged(name) && !trusting:
		return "the gateway removes it, as no proxy is trusted to set it"
	}
	return ""
}

// states reports whether a proxy may state something of a client in a field: it is no
// field of the connection or the framing, which net/http takes away, nor one that spoofs.
func states(name string) bool {
	return token(name) && strings.IndexByte(name, '_') < 0 && !forged(name) && !hopByHop(name) && name != "Host" && name != "Content-Length"
}

// unlist removes the fields that Connection names, except those that a trusted
// proxy has set for us, and an upgrade to a protocol that the route does not have.
func (x *exchange) unlist(r *http.Request) {
	lines, ok := r.Header["Connection"]
	if !ok {
		delete(r.Header, "Upgrade")
		return
	}
	upgrades := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			switch {
			case name == "Upgrade":
				upgrades = true
			case name == "Te" || slices.Contains(x.g.names, name):
			default:
				delete(r.Header, name)
			}
		}
	}
	protocol := r.Header["Upgrade"]
	delete(r.Header, "Http2-Settings")
	if upgrades && len(protocol) == 1 && x.route != nil && slices.Contains(x.route.upgrades, strings.ToLower(protocol[0])) {
		r.Header["Connection"] = []string{"Upgrade"}
		return
	}
	delete(r.Header, "Connection")
	delete(r.Header, "Upgrade")
}

// has reports whether one of the networks contains a, which is unmapped.
func has(networks rules.Networks, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// locate notes where the request came from: the connection's other end, and the
// client behind the proxies that are trusted.
func (x *exchange) locate(r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	x.peer = from.Addr().Unmap().WithZone("")
	if p := x.g.cfg.Proxies; len(p.Trusted) > 0 {
		x.client = rules.ClientAddress(x.peer, p, r.Header.Values)
		return
	}
	x.client = x.version.ClientAddress(x.peer, r.Header.Values)
}

// trusts reports whether the peer is a proxy that is trusted.
func (x *exchange) trusts() bool {
	if x.trust == 0 {
		yes := x.client != x.peer
		if p := x.g.cfg.Proxies; len(p.Trusted) > 0 {
			yes = has(p.Trusted, x.peer)
		} else if !yes {
			yes = x.version.ClientAddress(x.peer, somebody(x.peer)) != x.peer
		}
		x.trust = 1
		if yes {
			x.trust = 2
		}
	}
	return x.trust == 2
}

// somebody returns header fields by which a proxy states another address than
// its own: who believes them trusts it.
func somebody(peer netip.Addr) func(string) []string {
	other := "192.0.2.1"
	if peer.String() == other {
		other = "192.0.2.2"
	}
	return func(name string) []string {
		if name == "Forwarded" {
			return []string{"for=" + other}
		}
		return []string{other}
	}
}
