package rules_test

import (
	"strings"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

func TestLists(t *testing.T) {
	c := mustParse(t, `{
		"deny":  ["203.0.113.0/24", "2001:db8:bad::/48", "client=mallory*", "header:user-agent=*EvilBot*"],
		"allow": ["10.0.0.0/8", "203.0.113.9", "192.0.2.1", "client=monitor", "customer=acme", "path=/healthz", "host=*.Internal"],
		"rules": [{"name": "stop", "limits": "0/s", "priority": "low"}]
	}`, "customer")
	for _, x := range []struct {
		r    rules.Request
		want string
	}{
		{rules.Request{Address: addr("203.0.113.7")}, "denied 203.0.113.0/24"},
		{rules.Request{Address: addr("::ffff:203.0.113.7")}, "denied 203.0.113.0/24"},
		{rules.Request{Address: addr("203.0.113.9")}, "denied 203.0.113.0/24"},
		{rules.Request{Address: addr("2001:db8:bad:1::2")}, "denied 2001:db8:bad::/48"},
		{rules.Request{Address: addr("2001:db8:bae::2%eth0")}, "over "},
		{rules.Request{Client: "mallory2"}, "denied client=mallory*"},
		{rules.Request{Client: "monitor", Header: header("User-Agent", "an EvilBot/1")}, "denied header:user-agent=*EvilBot*"},
		{rules.Request{Address: addr("10.9.8.7")}, "allowed 10.0.0.0/8"},
		{rules.Request{Address: addr("::ffff:10.9.8.7")}, "allowed 10.0.0.0/8"},
		{rules.Request{Address: addr("192.0.2.1")}, "allowed 192.0.2.1"},
		{rules.Request{Address: addr("192.0.2.2")}, "over "},
		{rules.Request{Client: "monitor"}, "allowed client=monitor"},
		{rules.Request{Client: "Monitor"}, "over "},
		{rules.Request{Path: "//healthz"}, "allowed path=/healthz"},
		{rules.Request{Host: "A.INTERNAL:80"}, "allowed host=*.Internal"},
		{rules.Request{Value: func(string) (string, bool) { return "acme", true }}, "allowed customer=acme"},
		{rules.Request{Value: func(string) (string, bool) { return "acme", false }}, "over "},
	} {
		a := ask(t, c, newBook(), x.r)
		if got := a.Reason.String() + " " + a.Entry; got != x.want || a.OK != (a.Reason == rules.Allowed) || a.Priority != load.Low {
			t.Errorf("Decide(%v %q %q) = %+v, want %s, low", x.r.Address, x.r.Client, x.r.Path, a, x.want)
		}
		if a.Reason == rules.Denied && a.Decision.RetryAfter != limit.Never {
			t.Errorf("a denied request has RetryAfter %v, want Never", a.Decision.RetryAfter)
		}
	}
}

func TestOverrides(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "c", "match": {"paths": "/c"}, "key": "client", "limits": "1/h", "overrides": [
			{"key": "vip-*", "limits": "2/h"}, {"key": "vip-one", "limits": ["3/h", "5/day"]}, {"key": "free", "limits": "unlimited"}, {"key": "*-7", "limits": "0/s"}]},
		{"name": "a", "match": {"paths": "/a"}, "key": "address", "limits": "1/h", "overrides": [
			{"key": "10.0.0.0/8", "limits": "2/h"}, {"key": "10.0.0.1", "limits": "3/h"},
			{"key": "2001:db8::/64", "limits": "4/h"}, {"key": "2001:db8::/32", "limits": "5/h"}]},
		{"name": "b", "match": {"paths": "/b"}, "key": ["address", "header:X-K"], "limits": "1/h", "overrides": [
			{"key": ["*", "k"], "limits": "2/h"}, {"key": ["192.0.2.1", "k"], "limits": "3/h"}]}
	]}`)
	for _, x := range []struct {
		r    rules.Request
		want int // how many pass
	}{
		{rules.Request{Path: "/c", Client: "x"}, 1},
		{rules.Request{Path: "/c", Client: "vip-two"}, 2},
		{rules.Request{Path: "/c", Client: "vip-one"}, 3},
		{rules.Request{Path: "/c", Client: "vip-7"}, 2},
		{rules.Request{Path: "/c", Client: "x-7"}, 0},
		{rules.Request{Path: "/c", Client: "free"}, 9},
		{rules.Request{Path: "/c", Client: "VIP-one"}, 1},
		{rules.Request{Path: "/c"}, 1},
		{rules.Request{Path: "/a", Address: addr("10.0.0.2")}, 2},
		{rules.Request{Path: "/a", Address: addr("::ffff:10.0.0.1")}, 3},
		{rules.Request{Path: "/a", Address: addr("192.0.2.1")}, 1},
		{rules.Request{Path: "/a", Address: addr("2001:db8::5")}, 4},
		{rules.Request{Path: "/a", Address: addr("2001:db8:1::5")}, 5},
		{rules.Request{Path: "/b", Address: addr("192.0.2.1"), Header: header("X-K", "k")}, 3},
		{rules.Request{Path: "/b", Address: addr("192.0.2.2"), Header: header("X-K", "k")}, 2},
		{rules.Request{Path: "/b", Address: addr("192.0.2.2"), Header: header("X-K", "l")}, 1},
		{rules.Request{Path: "/b", Address: addr("192.0.2.1")}, 1},
	} {
		b, got := newBook(), 0
		for range 9 {
			if ask(t, c, b, x.r).OK {
				got++
			}
		}
		if got != x.want {
			t.Errorf("Decide(%s %q %v): %d of 9 passed, want %d", x.r.Path, x.r.Client, x.r.Address, got, x.want)
		}
	}
}

// TestOverrideKeepsTheKey: a customer that begins to pay keeps its debt.
func TestOverrideKeepsTheKey(t *testing.T) {
	const before = `{"rules": [{"name": "r", "key": "client", "limits": "10/h"}]}`
	const after = `{"rules": [{"name": "r", "key": "client", "limits": "10/h", "overrides": [{"key": "acme", "limits": "100/h"}]}]}`
	b := newBook()
	r := rules.Request{Client: "acme"}
	for range 10 {
		ask(t, mustParse(t, before), b, r)
	}
	if a := ask(t, mustParse(t, after), b, r); !a.OK || a.Decision.Remaining != 89 {
		t.Errorf("Decide = %+v, want 89 left of 100: ten were used before the change", a)
	}
	if len(b.states) != 1 {
		t.Errorf("%d keys, want one: the limit is no part of it", len(b.states))
	}
}

// TestReloadKeepsTheAccount: each kind of limit, read again, goes on where it
// was, though its time zone was loaded again.
func TestReloadKeepsTheAccount(t *testing.T) {
	for _, text := range []string{"3/h", "3/h burst 4", "3/h fixed-window", "3/h first-hit-window", "3/h sliding-window", "3/month calendar-window Europe/Berlin"} {
		b, passed := newBook(), 0
		for range 9 {
			c := mustParse(t, `{"rules": [{"name": "r", "limits": "`+text+`"}]}`)
			if ask(t, c, b, rules.Request{}).OK {
				passed++
			}
		}
		want := 3
		if text == "3/h burst 4" {
			want = 4
		}
		if passed != want {
			t.Errorf("%s, read again for each request: %d of 9 passed, want %d", text, passed, want)
		}
	}
}

// What allow says of a path is for one that can be read in one way only, and a rule
// is for a path that matches in either way.
func TestPathsOfTwoReadings(t *testing.T) {
	c := mustParse(t, `{"allow": ["path=/ok", "path:2=fine"], "deny": "path=/no", "rules": [{"name": "all", "match": {"paths": "/api/*"}, "limits": "0/s"}]}`)
	for _, q := range []struct {
		path, raw string
		want      rules.Reason
	}{
		{"/ok", "", rules.Allowed},
		{"//ok", "", rules.Allowed},
		{"/api/../ok", "/api/%2e%2e/ok", rules.Over},
		{"/api/ok", "/api%2Fok", rules.Over},
		{"/x/fine", "", rules.Allowed},
		{"/api/fine", "/api%2ffine", rules.Over},
		{"/api/../x", "/api/%2e%2e/x", rules.Over},
		{"/x/../api/y", "/x/%2e%2e/api/y", rules.Over},
		{"/api/../no", "/api/%2e%2e/no", rules.Denied},
		{"/.well-known/..x/...", "", rules.Unlimited},
	} {
		a, err := c.Decide(t.Context(), new(memory.Store), rules.Request{Path: q.path, RawPath: q.raw})
		if err != nil || a.Reason != q.want {
			t.Errorf("%s, sent as %s: %v, %v; want %v", q.path, q.raw, a.Reason, err, q.want)
		}
	}
}

// A path with dot segments may be served as it was sent or without them: it gets no
// key of its own, and no override and no entry of deny is passed by.
func TestPathsWithDotSegments(t *testing.T) {
	c := mustParse(t, `{"deny": ["path=/admin/secret*", "path:1=no"], "rules": [
		{"name": "a", "key": "address+path:1", "limits": "3/h", "missing": "pass"},
		{"name": "p", "key": "path", "limits": "9/h", "overrides": [{"key": "/login", "limits": "2/h"}, {"key": "/x/*", "limits": "5/h", "in_flight": 4}]}]}`)
	for _, x := range []struct {
		path, want string // keys, or the entry that denies
	}{
		{"/admin/y", "a/0/address=192.0.2.1/path:1=admin p/0/path=%2Fadmin%2Fy"},
		{"/admin/../x1", "a/0/address=192.0.2.1/path:1= p/0/path="},
		{"/admin/./x2", "a/0/address=192.0.2.1/path:1= p/0/path="},
		{"/a/../login", "a/0/address=192.0.2.1/path:1= p/0/path= p/0/path=%2Flogin"},
		{"/x/../login", "a/0/address=192.0.2.1/path:1= p/0/path= p/0/path=%2Flogin p/0/path=%2Fx%2F..%2Flogin"},
		{"/.x/..y", "a/0/address=192.0.2.1/path:1=.x p/0/path=%2F.x%2F..y"},
		{"/admin/secret/../../zz", "path=/admin/secret*"},
		{"/zz/../admin/secret", "path=/admin/secret*"},
		{"/no/../zz", "path:1=no"},
		{"/zz/../no", "path:1=no"},
	} {
		b := newBook()
		a, err := c.Decide(t.Context(), b, rules.Request{Path: x.path, Address: addr("192.0.2.1")})
		got := a.Entry
		if len(b.calls) > 0 {
			got = strings.Join(b.calls[0], " ")
		}
		if err != nil || got != x.want {
			t.Errorf("%s: %s, %v\n want %s", x.path, got, err, x.want)
		}
	}
}
