package intercept

import (
	"net/netip"
	"strings"
	"testing"
)

// TestParseTarget: a CONNECT names a host with a port in one usual way; what some resolvers
// and parsers take for another host is refused, with what would be right.
func TestParseTarget(t *testing.T) {
	for _, c := range []struct{ text, want, wrong string }{
		{"api.github.com:443", "api.github.com:443", ""},
		{"API.GitHub.COM:443", "api.github.com:443", ""},
		{"api.github.com.:443", "api.github.com:443", ""},
		{"a_b.example:65535", "a_b.example:65535", ""},
		{"xn--bcher-kva.example:1", "xn--bcher-kva.example:1", ""},
		{"127.0.0.1:8443", "127.0.0.1:8443", ""},
		{"[2001:DB8::1]:443", "[2001:db8::1]:443", ""},
		{"[::ffff:10.0.0.1]:443", "10.0.0.1:443", ""},
		{"", "", "want HOST:PORT"},
		{"api.github.com", "", "want HOST:PORT"},
		{"api.github.com:", "", "number from 1 to 65535"},
		{"api.github.com:0", "", "number from 1 to 65535"},
		{"api.github.com:0443", "", "number from 1 to 65535"},
		{"api.github.com:+443", "", "number from 1 to 65535"},
		{"api.github.com:65536", "", "number from 1 to 65535"},
		{"api.github.com:https", "", "number from 1 to 65535"},
		{":443", "", "host is missing"},
		{".:443", "", "host is missing"},
		{"a..b:443", "", "between the dots"},
		{"a.b..:443", "", "between the dots"},
		{"-a.b:443", "", "between the dots"},
		{"user:pw@api.github.com:443", "", "has ':'"},
		{"user@api.github.com:443", "", "has an @"},
		{"https://api.github.com:443", "", "has ':'"},
		{"api.github.com:443/path", "", "number from 1 to 65535"},
		{"api.github.com/x:443", "", "has '/'"},
		{"api.github.com%00.evil.com:443", "", "has '%'"},
		{"api.github.com\x00:443", "", `has '\x00'`},
		{"bücher.example:443", "", "in ASCII"},
		{"::1:443", "", "write an IPv6 address in [ ]"},
		{"[::1]", "", "want HOST:PORT"},
		{"[::1:443", "", "want HOST:PORT"},
		{"[fe80::1%eth0]:443", "", "without a zone"},
		{"[127.0.0.1]:443", "", "want an IPv6 address"},
		{"127.1:443", "", "is a number"},
		{"2130706433:443", "", "is a number"},
		{"0x7f000001:443", "", "is a number"},
		{"127.0.0.0x1:443", "", "is a number"},
		{"127.0.0.01:443", "", "is a number"},
		{"256.0.0.1:443", "", "is a number"},
		{strings.Repeat("a", 64) + ".example:443", "", "1 to 63"},
		{strings.Repeat("a.", 127) + "example:443", "", "longer than 253"},
		{strings.Repeat("a", 1<<20) + ":443", "", "longer than 253"},
	} {
		got, err := ParseTarget(c.text)
		if c.wrong == "" && (err != nil || got.String() != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || got != Target{}) {
			t.Errorf("ParseTarget(%.80q) = %v, %v; want %s %s", c.text, got, err, c.want, c.wrong)
		}
	}
}

// TestParseHost: people write hosts without a port, and addresses with or without brackets.
func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"api.github.com": "api.github.com:443", "Api.GitHub.com.": "api.github.com:443", "api.github.com:8443": "api.github.com:8443",
		"::1": "[::1]:443", "[::1]": "[::1]:443", "[::1]:8443": "[::1]:8443", "10.0.0.1": "10.0.0.1:443", "10.0.0.1:1": "10.0.0.1:1",
	} {
		if got, err := ParseHost(text); err != nil || got.String() != want {
			t.Errorf("ParseHost(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":443", "https://api.github.com", "a b", "a,b", "*", "*.a", "10.0.0.0/8", "a:", "a:b:c"} {
		if got, err := ParseHost(text); err == nil {
			t.Errorf("ParseHost(%q) = %v, want an error", text, got)
		}
	}
}

// FuzzParseTarget: whatever is read as a target is read again from what it prints as the
// same; it has no letter that a resolver, a URL or a certificate reads otherwise.
func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"api.github.com:443", "[::1]:443", "127.0.0.1:1", "A.b.:80", "user@a:1", "[::ffff:1.2.3.4]:2", "0x1:3", "::1:443"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTarget(text)
		if err != nil {
			if got != (Target{}) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("ParseTarget(%q) = %v, %q", text, got, err)
			}
			return
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got || got.Port == 0 {
			t.Fatalf("ParseTarget(%q) = %v, and of that %v, %v", text, got, again, err)
		}
		if written, err := ParseHost(got.Authority()); err != nil || written != got {
			t.Fatalf("ParseHost(%q) = %v, %v; want %v", got.Authority(), written, err, got)
		}
		if a := got.Addr(); a.IsValid() != (strings.Contains(got.Host, ":") || strings.Trim(got.Host, "0123456789.") == "") || a.Is4In6() || a.Zone() != "" {
			t.Fatalf("ParseTarget(%q) = %v, whose address is %v", text, got, a)
		}
		if strings.Trim(got.Host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" || len(got.Host) > 253 {
			t.Fatalf("ParseTarget(%q) = %v", text, got)
		}
	})
}

// TestList: an entry allows a host, names below one, all names or a network, at its port.
func TestList(t *testing.T) {
	list, err := ParseList([]string{"pypi.org", "*.pythonhosted.org", "git.example:22", "10.0.0.0/8:8443", "fd00::/8", "192.0.2.7", "*:8080"})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{
		"pypi.org:443": true, "pypi.org:80": false, "x.pypi.org:443": false, "files.pythonhosted.org:443": true, "a.b.pythonhosted.org:443": true,
		"pythonhosted.org:443": false, "evilpythonhosted.org:443": false, "git.example:22": true, "git.example:443": false,
		"10.1.2.3:8443": true, "10.1.2.3:443": false, "11.0.0.1:8443": false, "[fd12::1]:443": true, "[fe80::1]:443": false,
		"192.0.2.7:443": true, "192.0.2.8:443": false, "any.name:8080": true, "127.0.0.1:8080": false, "[::1]:8080": false,
		"[::ffff:10.1.2.3]:8443": true,
	} {
		at, err := ParseTarget(target)
		if err != nil || list.Allows(at) != want {
			t.Errorf("Allows(%s) = %t, %v; want %t", target, list.Allows(at), err, want)
		}
	}
	for _, text := range []string{"", "*.", "*x", "a.*.b", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8:0", "*:0", "::ffff:10.0.0.0/104", "a/b", "/8"} {
		if _, err := ParseList([]string{"ok.example", text}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParseList(%q): %v, want an error of one line", text, err)
		}
	}
}

// TestPublic: what is not in the Internet is not public, in whatever form of IPv6 it comes.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "140.82.121.6": true, "2606:4700::1111": true, "64:ff9b::101:101": true, "::ffff:1.1.1.1": true,
		"0.0.0.0": false, "10.0.0.1": false, "100.64.0.1": false, "127.0.0.1": false, "127.9.9.9": false, "169.254.169.254": false,
		"172.16.0.1": false, "172.31.255.255": false, "172.32.0.1": true, "192.168.1.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "fe80::1": false, "fe80::1%eth0": false, "fd00::1": false, "ff02::1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "2001:0:1::": false, "2001:db8::1": false, "::127.0.0.1": false,
		"100.100.100.200": false, "fd00:ec2::254": false, "240.0.0.1": false, "100.128.0.1": true, "fec0::1": false, "64:ff9b:1::101:101": false,
		"168.63.129.16": false, "168.63.129.17": true, "64:ff9b::a83f:8110": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) = %t, want %t", text, got, want)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestAllowsAddr: a name leads to a public address, or to one that is listed itself.
func TestAllowsAddr(t *testing.T) {
	list, err := ParseList([]string{"*", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"1.1.1.1:443": true, "10.1.1.1:443": true, "10.1.1.1:80": false, "[::ffff:10.1.1.1]:443": true, "127.0.0.1:443": false, "[::1]:443": false} {
		if got := list.AllowsAddr(netip.MustParseAddrPort(text)); got != want {
			t.Errorf("AllowsAddr(%s) = %t, want %t", text, got, want)
		}
	}
}

// TestEverything: every target is allowed, at every port, and every address.
func TestEverything(t *testing.T) {
	for _, text := range []string{"api.example:443", "git.internal:22", "10.0.0.1:8443", "[::1]:443", "169.254.169.254:80"} {
		target, err := ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		if !Everything().Allows(target) || (List{}).Allows(target) {
			t.Errorf("%s: want it allowed, and not by an empty list", text)
		}
		if at := netip.AddrPortFrom(target.Addr(), target.Port); at.IsValid() && !Everything().AllowsAddr(at) {
			t.Errorf("the address of %s is not allowed", text)
		}
	}
}
