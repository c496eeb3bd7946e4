package upstream

import (
	"maps"
	"net/http"
	"strings"
)

// upgrading sends requests to an upstream that may speak HTTP/2, in which no connection
// is upgraded, as to WebSocket.
type upgrading struct {
	*http.Transport
	// upgrades sends requests for an upgrade, by HTTP/1.1. If nil, or if the upstream
	// refuses that in its TLS handshake, they are sent without the upgrade.
	upgrades *http.Transport
}

// RoundTrip sends a request.
func (u *upgrading) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header["Upgrade"] == nil {
		return u.Transport.RoundTrip(r)
	}
	if u.upgrades != nil {
		a, err := u.upgrades.RoundTrip(r)
		if err == nil || !strings.Contains(err.Error(), refusesHTTP1) {
			return a, err
		}
	}
	plain := *r // the next upstream may be another
	plain.Header = maps.Clone(r.Header)
	delete(plain.Header, "Connection")
	delete(plain.Header, "Upgrade")
	return u.Transport.RoundTrip(&plain)
}

// refusesHTTP1 is what crypto/tls says of a handshake that an upstream has ended as it
// speaks HTTP/2 alone. The type of that error is not exported.
const refusesHTTP1 = "tls: no application protocol"

// CloseIdleConnections closes the connections that carry no request.
func (u *upgrading) CloseIdleConnections() {
	u.Transport.CloseIdleConnections()
	if u.upgrades != nil {
		u.upgrades.CloseIdleConnections()
	}
}
