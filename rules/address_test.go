package rules_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

var trusted = rules.Networks{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ff::/48")}

func TestClientAddress(t *testing.T) {
	const plain, rfc = "", "Forwarded"
	for _, x := range []struct {
		header, remote string
		lines          []string
		want           string
	}{
		{plain, "198.51.100.1", []string{"192.0.2.1"}, "198.51.100.1"}, // not a proxy
		{plain, "10.0.0.1", nil, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.1"}, "192.0.2.1"},
		{plain, "::ffff:10.0.0.1", []string{"192.0.2.1"}, "192.0.2.1"},
		{plain, "2001:db8:ff::1%eth0", []string{"192.0.2.1"}, "192.0.2.1"},
		{plain, "10.0.0.1", []string{"6.6.6.6, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{plain, "10.0.0.1", []string{"6.6.6.6", "192.0.2.1", "10.0.0.2,10.0.0.3"}, "192.0.2.1"},
		{plain, "10.0.0.1", []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"}, // from inside
		{plain, "10.0.0.1", []string{"192.0.2.1:4711"}, "192.0.2.1"},
		{plain, "10.0.0.1", []string{"\t[2001:db8::1]:4711 "}, "2001:db8::1"},
		{plain, "10.0.0.1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{plain, "10.0.0.1", []string{"2001:db8::1"}, "2001:db8::1"},
		{plain, "10.0.0.1", []string{"fe80::1%eth0"}, "fe80::1"},
		{plain, "10.0.0.1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{plain, "10.0.0.1", []string{"[::ffff:10.0.0.2]:1"}, "10.0.0.2"},
		{plain, "10.0.0.1", []string{"192.0.2.1, unknown"}, "10.0.0.1"}, // malformed: stop
		{plain, "10.0.0.1", []string{"192.0.2.1, junk, 10.0.0.2"}, "10.0.0.2"},
		{plain, "10.0.0.1", []string{"192.0.2.1,"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.1", ""}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.1:"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.1:123456"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.1:x"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"[192.0.2.1]:80"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"[2001:db8::1"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"[2001:db8::1]80"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{"192.0.2.01"}, "10.0.0.1"},
		{plain, "10.0.0.1", []string{strings.Repeat("10.0.0.2,", 100) + "10.0.0.3"}, "10.0.0.2"}, // bounded
		{plain, "10.0.0.1", []string{"192.0.2.1" + strings.Repeat(",10.0.0.2", 32)}, "10.0.0.2"},
		{plain, "10.0.0.1", []string{"192.0.2.1" + strings.Repeat(",10.0.0.2", 31)}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{"for=192.0.2.1;proto=https;by=10.0.0.1"}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{`For="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{rfc, "10.0.0.1", []string{`proto=http; FOR="192.0.2.1:80" , for=10.0.0.2`}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{`for=6.6.6.6, for="`, `for=192.0.2.1`}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{`for=6.6.6.6;x=", for=192.0.2.1`}, "192.0.2.1"}, // the client's quote
		{rfc, "10.0.0.1", []string{`for=6.6.6.6, for=192.0.2.1;host="a,b;for=7.7.7.7"`}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{`for=6.6.6.6, for=192.0.2.1;host="a\",for=7.7.7.7"`}, "192.0.2.1"},
		{rfc, "10.0.0.1", []string{`for=6.6.6.6, for=192.0.2.1;for=7.7.7.7`}, "10.0.0.1"},
		{rfc, "10.0.0.1", []string{`for=192.0.2.1, for=unknown`}, "10.0.0.1"},
		{rfc, "10.0.0.1", []string{`for=192.0.2.1, for=_hidden, for=10.0.0.2`}, "10.0.0.2"},
		{rfc, "10.0.0.1", []string{`for=192.0.2.1, proto=https`}, "10.0.0.1"},
		{rfc, "10.0.0.1", []string{`192.0.2.1`}, "10.0.0.1"},
	} {
		var read []string
		got := rules.ClientAddress(addr(x.remote), rules.Proxies{Trusted: trusted, Header: x.header}, func(name string) []string {
			read = append(read, name)
			return x.lines
		})
		if got != addr(x.want) {
			t.Errorf("ClientAddress(%s, %q) = %v, want %s", x.remote, clipped(x.lines), got, x.want)
		}
		if want := map[string]string{plain: "[X-Forwarded-For]", rfc: "[Forwarded]"}[x.header]; fmt.Sprint(read) != want && x.remote != "198.51.100.1" {
			t.Errorf("ClientAddress(%s) read %v, want %s", x.remote, read, want)
		}
	}
}

func clipped(lines []string) string {
	text := strings.Join(lines, "\n")
	return text[:min(len(text), 80)]
}

// TestNoHeaderWithoutProxies: without trusted proxies no forwarded header is read.
func TestNoHeaderWithoutProxies(t *testing.T) {
	never := func(name string) []string {
		t.Errorf("read %s, want no header read", name)
		return []string{"192.0.2.1"}
	}
	c := mustParse(t, `{"rules": []}`)
	for _, remote := range []string{"10.0.0.1", "127.0.0.1", "::1"} {
		if got := c.ClientAddress(addr(remote), never); got != addr(remote) {
			t.Errorf("ClientAddress(%s) = %v, want itself", remote, got)
		}
	}
	if got := c.ClientAddress(netip.Addr{}, never); got.IsValid() {
		t.Errorf("ClientAddress of no address = %v, want none", got)
	}
	c = mustParse(t, `{"proxies": {"trusted": "10.0.0.1", "header": "forwarded"}, "rules": []}`)
	got := c.ClientAddress(addr("10.0.0.1"), func(name string) []string {
		return []string{"for=" + map[string]string{"Forwarded": "192.0.2.1"}[name]}
	})
	if got != addr("192.0.2.1") {
		t.Errorf("ClientAddress by Forwarded = %v, want 192.0.2.1", got)
	}
}

// FuzzClientAddress: whatever a client sends, in one line or several, its
// address is the one that the first proxy saw, or, where it wrote it down in an
// unreadable way, that proxy's.
func FuzzClientAddress(f *testing.F) {
	f.Add("6.6.6.6", "7.7.7.7, 10.0.0.9", true)
	f.Add(`for="`, `for=6.6.6.6;x="\`, false)
	f.Add(`",`, "10.0.0.1,,,", true)
	f.Fuzz(func(t *testing.T, line1, line2 string, same bool) {
		const real, inner = "192.0.2.1", "10.0.0.2"
		for name, text := range map[string]string{
			"X-Forwarded-For": real + ", " + inner,
			"Forwarded":       `for="192.0.2.1:99";host="a,b", for=` + inner,
		} {
			lines := []string{line1, line2, text}
			if same { // a proxy adds to the line that is there
				lines = []string{line1, line2 + ", " + text}
			}
			p := rules.Proxies{Trusted: trusted, Header: name}
			got := rules.ClientAddress(addr("10.0.0.1"), p, func(string) []string { return lines })
			if got != addr(real) {
				t.Errorf("ClientAddress by %s of %q = %v, want %s", name, lines, got, real)
			}
			lines = []string{line1, line2}
			got = rules.ClientAddress(addr(real), p, func(string) []string { return lines })
			if got != addr(real) {
				t.Errorf("ClientAddress of a client without a proxy, with %q = %v, want %s", lines, got, real)
			}
		}
	})
}

// The key of a caller at an address.
func TestNetwork(t *testing.T) {
	for _, c := range []struct {
		address    string
		ipv4, ipv6 int
		want       string
	}{
		{"192.0.2.77", 32, 64, "192.0.2.77"},
		{"192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"192.0.2.77", 99, 64, "192.0.2.77"},
		{"192.0.2.77", -1, 64, "0.0.0.0/0"},
		{"::ffff:192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"2001:db8:1:2:3::4", 24, 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3::4%eth0", 24, 64, "2001:db8:1:2::/64"},
		{"2001:db8::4%eth0", 24, 128, "2001:db8::4"},
		{"2001:db8::4", 24, 129, "2001:db8::4"},
		{"2001:db8::4", 24, -1, "::/0"},
		{"fe80::1%eth0", 24, 64, "fe80::1"},
	} {
		if got := rules.Network(netip.MustParseAddr(c.address), c.ipv4, c.ipv6); got != c.want {
			t.Errorf("Network(%s, %d, %d) = %s, want %s", c.address, c.ipv4, c.ipv6, got, c.want)
		}
	}
}
