package rules_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

const twoParts = `{"rules": [
	{"name": "r", "key": "client+path", "limits": ["9/s", "99/h"]}, {"name": "r.0", "key": "client", "limits": "9/s"},
	{"name": "h", "key": "header:X-K", "limits": "9/s"}, {"name": "p", "key": "method+path:2+host", "limits": "9/s"}]}`

func keysOf(t testing.TB, c *rules.Compiled, r rules.Request) []string {
	t.Helper()
	b := newBook()
	if _, err := c.Decide(t.Context(), b, r); err != nil {
		t.Fatalf("Decide(%+v) = %v", r, err)
	}
	return b.calls[0]
}

func TestKeys(t *testing.T) {
	c := mustParse(t, twoParts)
	for _, x := range []struct {
		r    rules.Request
		want string
	}{
		{rules.Request{Client: "a", Path: "/b"}, "r/0/client=a/path=%2Fb r/1/client=a/path=%2Fb r.0/0/client=a h/0/header:X-K= p/0/method=/path:2=/host="},
		{rules.Request{Client: "a/path=x", Path: "/b"}, "r/0/client=a%2Fpath%3Dx/path=%2Fb r/1/client=a%2Fpath%3Dx/path=%2Fb r.0/0/client=a%2Fpath%3Dx h/0/header:X-K= p/0/method=/path:2=/host="},
		{
			rules.Request{Client: "%~", Method: "GET", Path: "/a/ü\n/", Host: "X.org:80", Header: header("X-K", "a")},
			"r/0/client=%25%7E/path=%2Fa%2F%C3%BC%0A%2F r/1/client=%25%7E/path=%2Fa%2F%C3%BC%0A%2F r.0/0/client=%25%7E h/0/header:X-K=%~ypeBEsobvcr6wjGzmiPcTQ p/0/method=GET/path:2=%C3%BC%0A/host=x.org",
		},
	} {
		if got := strings.Join(keysOf(t, c, x.r), " "); got != x.want {
			t.Errorf("keys of %q %q:\n got %s\nwant %s", x.r.Client, x.r.Path, got, x.want)
		}
	}
}

func TestAddressKeys(t *testing.T) {
	const text = `{"ipv6_prefix": %d, "rules": [{"name": "r", "key": "address", "limits": "9/s"}]}`
	for _, x := range []struct {
		bits       int
		from, want string
	}{
		{0, "192.0.2.1", "192.0.2.1"},
		{0, "::ffff:192.0.2.1", "192.0.2.1"},
		{0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{0, "fe80::1%eth0", "fe80::1"},
		{48, "2001:db8:1:2:3:4:5:6", "2001:db8:1::"},
		{128, "2001:db8::1%x/y", "2001:db8::1"},
	} {
		got := keysOf(t, mustParse(t, fmt.Sprintf(text, x.bits)), rules.Request{Address: addr(x.from)})[0]
		if want := "r/0/address=" + x.want; got != want {
			t.Errorf("key of %s by /%d = %s, want %s", x.from, x.bits, got, want)
		}
	}
}

// TestKeysAreBounded: a flood of huge keys is a flood of small ones.
func TestKeysAreBounded(t *testing.T) {
	c := mustParse(t, twoParts)
	huge := strings.Repeat("/", 1<<20)
	for _, client := range []string{huge, huge + "x", strings.Repeat("\x00", 64), strings.Repeat("\x00", 65)} {
		for _, key := range keysOf(t, c, rules.Request{Client: client, Path: client, Method: client, Host: client, Header: func(string) string { return client }}) {
			if len(key) > 600 {
				t.Errorf("a key of %d bytes for values of %d", len(key), len(client))
			}
		}
	}
}

func TestKeyID(t *testing.T) {
	c := mustParse(t, `{"rules": [{"name": "r", "key": "client", "limits": "9/s"}]}`)
	a := ask(t, c, newBook(), rules.Request{Client: strings.Repeat("x", 1000)})
	b := ask(t, c, newBook(), rules.Request{Client: "y"})
	again := ask(t, c, newBook(), rules.Request{Client: "y"})
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(a.KeyID()) || a.KeyID() == b.KeyID() || b.KeyID() != again.KeyID() {
		t.Errorf("KeyIDs %q, %q, %q; want 16 letters, the same for the same key only", a.KeyID(), b.KeyID(), again.KeyID())
	}
	if none := (&rules.Answer{}).KeyID(); none != "" {
		t.Errorf("KeyID without a key = %q, want none", none)
	}
}

// FuzzKeys: no values make the key of other values, or of another rule or
// limit, and all keys are short and printable.
func FuzzKeys(f *testing.F) {
	f.Add("a", "/b", "a/path=", "/b")
	f.Add("%~", "", "", "%~")
	f.Add(strings.Repeat("x", 65), "/", "%~x", "/")
	const text = `{"rules": [{"name": "r", "key": "client+host", "limits": ["9/s", "99/h"]}, {"name": "r.0", "key": "client", "limits": "9/s"}]}`
	c, err := rules.Parse([]byte(text))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a", "1,b=2", "a=1,b", "2")
	f.Add("a%2C", "", "a,", "=")
	described, err := rules.Parse([]byte(`{"rules": [{"name": "d", "key": "descriptor", "match": {"domains": "*"}, "limits": "9/s"}]}`))
	if err != nil {
		f.Fatal(err)
	}
	fine := regexp.MustCompile(`^[!-~]{1,600}$`)
	f.Fuzz(func(t *testing.T, client1, host1, client2, host2 string) {
		descriptors := [][]rules.Pair{{{client1, host1}}, {{client2, host2}}, {{client1, ""}, {"", host1}}, {{client1, host1}, {client2, host2}}}
		for _, a := range descriptors {
			for _, b := range descriptors {
				one := keysOf(t, described, rules.Request{Domain: "x", Descriptor: a})[0]
				if two := keysOf(t, described, rules.Request{Domain: "x", Descriptor: b})[0]; (one == two) != slices.Equal(a, b) {
					t.Errorf("keys of the descriptors %q and %q: %s, %s", a, b, one, two)
				}
			}
		}
		host1, host2 = strings.Trim(strings.ToLower(host1), ".:"), strings.Trim(strings.ToLower(host2), ".:")
		if strings.Contains(host1+host2, ":") {
			return // a port, which is no part of the host
		}
		one := keysOf(t, c, rules.Request{Client: client1, Host: host1})
		two := keysOf(t, c, rules.Request{Client: client2, Host: host2})
		for i, key := range one {
			if !fine.MatchString(key) {
				t.Errorf("key %q of %q, %q is long or not printable", key, client1, host1)
			}
			for j, other := range two {
				same := i == j && client1 == client2 && (host1 == host2 || i == 2)
				if (key == other) != same {
					t.Errorf("keys %d of %q, %q and %d of %q, %q: %q, %q; want the same: %t", i, client1, host1, j, client2, host2, key, other, same)
				}
			}
		}
	})
}
