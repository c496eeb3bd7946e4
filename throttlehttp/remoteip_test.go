package throttlehttp

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

func TestClientNetwork(t *testing.T) {
	behind := rules.Proxies{Trusted: rules.Networks{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct {
		network    ClientNetwork
		from, want string
	}{
		{ClientNetwork{}, "192.0.2.1:80", "192.0.2.1"},
		{ClientNetwork{}, "[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{ClientNetwork{}, "[2001:db8:1:2:3::4]:80", "2001:db8:1:2::/64"},
		{ClientNetwork{}, "[fe80::1%eth0]:80", "fe80::1"},
		{ClientNetwork{}, "[fe80::2%eth0]:80", "fe80::2"},
		{ClientNetwork{}, "@", "@"},
		{ClientNetwork{}, "192.0.2.1", "192.0.2.1"}, // without port, as middleware leaves it
		{ClientNetwork{}, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{ClientNetwork{}, "[2001:db8:1:2:3::4]", "2001:db8:1:2::/64"},
		{ClientNetwork{}, "fe80::1%eth0", "fe80::1"},
		{ClientNetwork{Behind: behind}, "10.0.0.1", "2001:db8:7:8::/64"},
		{ClientNetwork{IPv6: 56}, "[2001:db8:1:2ff:3::4]:80", "2001:db8:1:200::/56"},
		{ClientNetwork{IPv6: 128}, "[2001:db8::4]:80", "2001:db8::4"},
		{ClientNetwork{IPv4: 24}, "192.0.2.77:80", "192.0.2.0/24"},
		{ClientNetwork{IPv4: 99, IPv6: -1}, "192.0.2.77:80", "192.0.2.77"},
		{ClientNetwork{IPv6: -1}, "[2001:db8::4]:80", "::/0"},
		{ClientNetwork{IPv6: 48, Behind: behind}, "10.0.0.1:80", "2001:db8:7::/48"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.from
		r.Header.Set("X-Forwarded-For", "2001:db8:7:8::9")
		if got := c.network.Key(r); got != c.want {
			t.Errorf("%+v.Key of %s = %s, want %s", c.network, c.from, got, c.want)
		}
	}
}

// Rules see the address also where middleware has left it without port.
func TestRulesSeeABareAddress(t *testing.T) {
	h := &Handler{Control: &admit.Control{Rules: live(t, `{"deny": "2001:db8::/32", "rules": []}`)}, Next: hello}
	for _, from := range []string{"[2001:db8::1]:80", "2001:db8::1"} {
		if a := ask(h, "GET", func(r *http.Request) { r.RemoteAddr = from }); a.StatusCode != 403 {
			t.Errorf("from %s, which is denied: %d, want 403", from, a.StatusCode)
		}
	}
}

// TestClientIPTrusts: proxies by which clients could choose their address, or that
// state it in a field which is not read, are refused where they are written.
func TestClientIPTrusts(t *testing.T) {
	of := func(networks ...string) (all rules.Networks) {
		for _, n := range networks {
			all = append(all, netip.MustParsePrefix(n))
		}
		return all
	}
	for _, c := range []struct {
		behind rules.Proxies
		want   string // of the panic; empty: there is none
	}{
		{rules.Proxies{}, ""},
		{rules.Proxies{Trusted: of("10.0.0.0/8"), Header: "forwarded"}, ""},
		{rules.Proxies{Trusted: of("10.0.0.0/8", "0.0.0.0/0")}, "throttlehttp: ClientIP: proxies.trusted[1]: trusts everybody"},
		{rules.Proxies{Trusted: of("0.0.0.0/1", "128.0.0.0/1")}, "throttlehttp: ClientIP: proxies.trusted: these networks together are everybody"},
		{rules.Proxies{Trusted: of("10.0.0.0/8"), Header: "X-Real-IP"}, "throttlehttp: ClientIP: proxies.header: must be X-Forwarded-For or Forwarded"},
		{rules.Proxies{Header: "Forwarded"}, "throttlehttp: ClientIP: proxies: no proxy is trusted"},
	} {
		func() {
			defer func() {
				said, _ := recover().(string)
				if !strings.HasPrefix(said, c.want) || (said != "") != (c.want != "") {
					t.Errorf("ClientIP(%+v): panic %q, want %q", c.behind, said, c.want)
				}
			}()
			ClientIP(c.behind)
		}()
	}
}
