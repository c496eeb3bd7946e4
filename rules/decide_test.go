package rules_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

func TestAllOrNothing(t *testing.T) {
	c := mustParse(t, `{"version": "v7", "rules": [
		{"name": "key", "key": "header:x-api-key", "limits": ["5/s", "8/h"]},
		{"name": "customer", "key": "customer", "limits": "3/s"},
		{"name": "all", "limits": "100/s"}
	]}`, "customer")
	b := newBook()
	r := rules.Request{
		Path: "/", Header: header("X-API-Key", "secret"),
		Value: func(name string) (string, bool) { return "acme", name == "customer" },
	}
	for i := range 3 {
		if a := ask(t, c, b, r); !a.OK || a.Rule != "customer" || a.Reason != rules.Within || a.Decision.Remaining != int64(2-i) || a.Version != "v7" {
			t.Fatalf("Decide %d = %+v, want it within customer with %d left", i, a, 2-i)
		}
	}
	for range 5 { // what is refused is charged nowhere
		a := ask(t, c, b, r)
		if a.OK || a.Rule != "customer" || a.Reason != rules.Over || a.Limit.Count != 3 || a.Decision.RetryAfter != 333334*time.Microsecond {
			t.Fatalf("Decide = %+v, want refused by customer for a third of a second", a)
		}
	}
	for i, want := range []int64{3, 3, 3, 3} {
		if key := b.calls[0][i]; b.used(key) != want {
			t.Errorf("used of %q = %d, want %d", key, b.used(key), want)
		}
	}
	if len(b.calls) != 8 {
		t.Errorf("the Store was asked %d times for 8 decisions, want once each", len(b.calls))
	}
	if strings.Contains(strings.Join(b.calls[0], " "), "secret") {
		t.Errorf("keys %q have the API key in them", b.calls[0])
	}
}

func TestDecisive(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "short", "limits": "1/s"}, {"name": "long", "limits": "1/h"}, {"name": "never", "match": {"paths": "/no"}, "limits": "0/s"}
	]}`)
	b := newBook()
	ask(t, c, b, rules.Request{})
	if a := ask(t, c, b, rules.Request{}); a.Rule != "long" || a.Decision.RetryAfter != time.Hour {
		t.Errorf("Decide = %+v, want refused by long for an hour", a)
	}
	if a := ask(t, c, b, rules.Request{Path: "/no"}); a.Rule != "never" || a.Decision.RetryAfter != limit.Never {
		t.Errorf("Decide = %+v, want refused by never for ever", a)
	}
}

func TestStoreError(t *testing.T) {
	c := mustParse(t, `{"version": "1", "rules": [{"name": "a", "limits": "1/s", "priority": "high"}, {"name": "b", "shadow": true, "match": {"paths": "/s"}, "limits": "1/s"}]}`)
	b := newBook()
	b.err = errors.New("away")
	a, err := c.Decide(t.Context(), b, rules.Request{})
	if !errors.Is(err, b.err) || a.OK || a.Rule != "" || a.Priority != load.High || a.Version != "1" {
		t.Errorf("Decide = %+v, %v, want the error of the Store, and priority and version", a, err)
	}
	c = mustParse(t, `{"rules": [{"name": "b", "shadow": true, "limits": "1/s"}]}`)
	a, err = c.Decide(t.Context(), b, rules.Request{})
	if err != nil || !a.OK || !errors.Is(a.ShadowErr, b.err) || a.Shadow != nil {
		t.Errorf("Decide = %+v, %v, want it to pass and the error in ShadowErr", a, err)
	}
}

func TestNilLimitsNobody(t *testing.T) {
	var live rules.Live
	a := ask(t, live.Load(), nil, rules.Request{})
	if !a.OK || a.Priority != load.Normal || live.Load().Version() != "" {
		t.Errorf("Decide of nil = %+v, want it to pass", a)
	}
	if got := live.Load().ClientAddress(addr("::ffff:192.0.2.1"), nil); got != addr("192.0.2.1") {
		t.Errorf("ClientAddress of nil = %v, want 192.0.2.1", got)
	}
}

func TestSwap(t *testing.T) {
	var live rules.Live
	one := mustParse(t, `{"rules": []}`)
	if old := live.Swap(one); old != nil || live.Load() != one {
		t.Errorf("first Swap = %v, Load = %v", old, live.Load())
	}
	if old := live.Swap(nil); old != one || live.Load() != nil {
		t.Errorf("second Swap = %v, Load = %v, want the first version and none", old, live.Load())
	}
}

func TestShadow(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "real", "limits": "3/h"},
		{"name": "tight", "shadow": true, "limits": ["1/h", "100/h"]},
		{"name": "wide", "shadow": true, "limits": "10/h"},
		{"name": "whole", "shadow": true, "key": "client", "missing": "refuse", "limits": "10/h"}
	]}`)
	b := newBook()
	want := [][]string{{"whole"}, {"tight", "whole"}, {"tight", "whole"}, nil, nil}
	for i := range want {
		a := ask(t, c, b, rules.Request{})
		if a.OK != (i < 3) || !reflect.DeepEqual(a.Shadow, want[i]) {
			t.Errorf("Decide %d = %+v, want OK %t, Shadow %v", i, a, i < 3, want[i])
		}
	}
	for key, want := range map[string]int64{"real/0": 3, "tight/0": 1, "tight/1": 1, "wide/0": 3} {
		if got := b.used(key); got != want {
			t.Errorf("used of %s = %d, want %d: a shadow rule is charged for what passes, if it has room, and for nothing else", key, got, want)
		}
	}
}

func TestUnlimited(t *testing.T) {
	c := mustParse(t, `{"allow": "client=c", "rules": [
		{"name": "none", "limits": "unlimited"}, {"name": "key", "match": {"paths": "/key"}, "key": "host", "missing": "refuse", "limits": "0/s"}]}`)
	b := newBook()
	if a := ask(t, c, b, rules.Request{}); !a.OK || a.Reason != rules.Unlimited || a.Rule != "" || len(b.calls) != 0 {
		t.Errorf("Decide = %+v after %d calls, want it unlimited without asking", a, len(b.calls))
	}
	if a := ask(t, c, b, rules.Request{Client: "c", Path: "/key"}); !a.OK || a.Reason != rules.Allowed {
		t.Errorf("Decide = %+v, want it allowed, whatever rule wants a key", a)
	}
	if a := ask(t, c, b, rules.Request{Path: "/key"}); a.OK || a.Reason != rules.NoKey {
		t.Errorf("Decide = %+v, want it refused for lack of a key", a)
	}
}

func TestOff(t *testing.T) {
	c := mustParse(t, `{"rules": [{"name": "stop", "off": true, "limits": "0/s", "priority": "low"}]}`)
	if a := ask(t, c, newBook(), rules.Request{}); !a.OK || a.Reason != rules.Unlimited || a.Priority != load.Normal {
		t.Errorf("Decide = %+v, want it to pass as if there were no rule", a)
	}
}

func TestMissing(t *testing.T) {
	for missing, want := range map[string]string{"": "share", `"missing": "share",`: "share", `"missing": "pass",`: "pass", `"missing": "refuse",`: "refuse"} {
		c := mustParse(t, fmt.Sprintf(`{"rules": [{"name": "r", "key": "address+client", %s "limits": "1/h"}]}`, missing))
		b := newBook()
		first := ask(t, c, b, rules.Request{Address: addr("192.0.2.1")})
		second := ask(t, c, b, rules.Request{Address: addr("192.0.2.1")})
		other := ask(t, c, b, rules.Request{Address: addr("192.0.2.2")})
		whole := ask(t, c, b, rules.Request{Address: addr("192.0.2.1"), Client: "c"})
		got := fmt.Sprint(first.OK, second.OK, other.OK, whole.OK, first.Reason)
		wants := map[string]string{
			"share": "true false true true within", "pass": "true true true true unlimited", "refuse": "false false false true no-key",
		}
		if got != wants[want] {
			t.Errorf("missing %s: two without client, one from elsewhere, one with = %s, want %s", want, got, wants[want])
		}
		if want == "refuse" && (first.Rule != "r" || first.Decision.RetryAfter != limit.Never || len(b.calls) != 1) {
			t.Errorf("Decide = %+v after %d calls, want refused by r for ever without asking the Store", first, len(b.calls))
		}
	}
}

func TestPhases(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "unknown", "phase": "before", "key": "address", "limits": "5/h"},
		{"name": "known", "key": "client", "match": {"client": "known"}, "limits": "5/h"},
		{"name": "stranger", "phase": "after", "key": "address", "match": {"client": "unknown"}, "limits": "5/h"}
	]}`)
	for _, x := range []struct {
		phase  rules.Phase
		client string
		want   string
	}{
		{rules.Before, "", "unknown"},
		{rules.After, "c", "known"},
		{rules.After, "", "stranger"},
		{"", "c", "unknown known"},
		{"", "", "unknown stranger"},
	} {
		b := newBook()
		ask(t, c, b, rules.Request{Phase: x.phase, Client: x.client, Address: addr("192.0.2.1")})
		var got []string
		for _, key := range b.calls[0] {
			name, _, _ := strings.Cut(key, "/")
			got = append(got, name)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("phase %q, client %q: asked %v, want %s", x.phase, x.client, got, x.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, x := range []struct {
		match string
		r     rules.Request
		want  bool
	}{
		{`"methods": ["GET", "PUT"]`, rules.Request{Method: "PUT"}, true},
		{`"methods": "GET"`, rules.Request{Method: "POST"}, false},
		{`"methods": "GET"`, rules.Request{Method: "get"}, false},
		{`"hosts": "*.Example.org"`, rules.Request{Host: "API.example.org:8443"}, true},
		{`"hosts": "*.example.org"`, rules.Request{Host: "a.b.example.org."}, true},
		{`"hosts": "*.example.org"`, rules.Request{Host: "example.org"}, false},
		{`"hosts": "[::1]"`, rules.Request{Host: "[::1]:80"}, true},
		{`"paths": "/api/*"`, rules.Request{Path: "/api/v1/x"}, true},
		{`"paths": "/api/*"`, rules.Request{Path: "/api/"}, true},
		{`"paths": "/api/*"`, rules.Request{Path: "/api"}, false},
		{`"paths": "/api/*"`, rules.Request{Path: "/API/x"}, false},
		{`"paths": "/login"`, rules.Request{Path: "//login"}, true},
		{`"paths": "/login"`, rules.Request{Path: "/x/../login"}, true},
		{`"paths": "/login"`, rules.Request{Path: "/./login"}, true},
		{`"paths": "/login"`, rules.Request{Path: "login"}, true},
		{`"paths": "/login"`, rules.Request{Path: "/login/"}, false},
		{`"paths": "/login/"`, rules.Request{Path: "/x/..//login//"}, true},
		{`"paths": "/"`, rules.Request{}, true},
		{`"paths": ["/a", "/b"], "methods": "GET"`, rules.Request{Method: "GET", Path: "/b"}, true},
		{`"paths": ["/a", "/b"], "methods": "GET"`, rules.Request{Method: "PUT", Path: "/b"}, false},
		{`"headers": {"x-tier": "free"}`, rules.Request{Header: header("X-Tier", "free")}, true},
		{`"headers": {"X-TIER": "free"}`, rules.Request{Header: header("x-tier", "free")}, true},
		{`"headers": {"x-tier": "free"}`, rules.Request{Header: header("X-Tier", "Free")}, false},
		{`"headers": {"x-tier": "*"}`, rules.Request{Header: header("X-Tier", "any")}, true},
		{`"headers": {"host": "*.example.org"}`, rules.Request{Host: "a.example.org", Header: header()}, true},
		{`"headers": {"host": "*:81"}`, rules.Request{Host: "a.example.org:80"}, false},
		{`"headers": {"x-tier": "*"}`, rules.Request{Header: header()}, false},
		{`"headers": {"x-tier": "*"}`, rules.Request{}, false},
		{`"headers": {"x-tier": "*", "x-b": "c*"}`, rules.Request{Header: header("X-Tier", "a", "X-B", "cd")}, true},
		{`"headers": {"x-tier": "*", "x-b": "c*"}`, rules.Request{Header: header("X-Tier", "a", "X-B", "dc")}, false},
	} {
		c := mustParse(t, `{"rules": [{"name": "r", "match": {`+x.match+`}, "limits": "0/s"}]}`)
		if a := ask(t, c, newBook(), x.r); a.OK == x.want {
			t.Errorf("match %s of %s %s%s: matched %t, want %t", x.match, x.r.Method, x.r.Host, x.r.Path, !a.OK, x.want)
		}
	}
}

func TestCost(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "fixed", "cost": 3, "limits": "100/h"}, {"name": "bytes", "cost": "bytes", "limits": "1000/h"}
	]}`, "bytes")
	b, cost := newBook(), int64(200)
	r := rules.Request{Cost: func(string) int64 { return cost }}
	ask(t, c, b, r)
	cost = -5
	ask(t, c, b, r) // zero, which passes only if nothing is owed
	if got, want := fmt.Sprint(b.used("fixed/0"), b.used("bytes/0")), "6 200"; got != want {
		t.Errorf("used after costs of 200 and -5 = %s, want %s", got, want)
	}
	ask(t, c, b, rules.Request{})
	if got, want := fmt.Sprint(b.used("fixed/0"), b.used("bytes/0")), "9 201"; got != want {
		t.Errorf("used after a request without Cost = %s, want %s", got, want)
	}
}

func TestPriority(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "shadow", "shadow": true, "limits": "1/s"},
		{"name": "login", "match": {"paths": "/login"}, "priority": "critical"},
		{"name": "batch", "match": {"headers": {"X-Batch": "*"}}, "priority": "low"}
	]}`)
	for path, want := range map[string]load.Priority{"/login": load.Critical, "/": load.Low} {
		if a := ask(t, c, newBook(), rules.Request{Path: path, Header: header("X-Batch", "1")}); a.Priority != want || !a.OK {
			t.Errorf("Decide(%s) = %+v, want priority %v", path, a, want)
		}
	}
	if !(load.Low < load.Normal && load.Normal < load.High && load.High < load.Critical) {
		t.Error("priorities are out of order")
	}
}

// TestAskedOnce: what the program is asked for one request, it is asked once,
// so that one decision has one view of the request.
func TestAskedOnce(t *testing.T) {
	c := mustParse(t, `{"deny": "customer=x", "rules": [
		{"name": "a", "key": "customer", "limits": "9/s"}, {"name": "b", "key": "customer+header:H", "match": {"headers": {"H": "*"}}, "limits": "9/s"},
		{"name": "c", "key": "customer", "shadow": true, "limits": "9/s"}
	]}`, "customer")
	asked := map[string]int{}
	ask(t, c, newBook(), rules.Request{
		Value:  func(name string) (string, bool) { asked[name]++; return fmt.Sprint(asked[name]), true },
		Header: func(name string) string { asked[name]++; return "h" },
	})
	if want := map[string]int{"customer": 1, "H": 1}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// TestRefund: what was taken before the caller was authenticated, and nothing else.
func TestRefund(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "address", "phase": "before", "key": "address", "cost": 2, "limits": ["10/h", "20/h"]},
		{"name": "client", "key": "client", "limits": "10/h"}
	]}`)
	b := newBook()
	before := rules.Request{Phase: rules.Before, Address: addr("192.0.2.1")}
	ask(t, c, b, before)
	ask(t, c, b, before)
	ask(t, c, b, rules.Request{Phase: rules.After, Client: "c"})
	if err := c.Refund(t.Context(), b, before); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"address/0/address=192.0.2.1": 2, "address/1/address=192.0.2.1": 2, "client/0/client=c": 1} {
		if got := b.used(key); got != want {
			t.Errorf("used of %s = %d, want %d", key, got, want)
		}
	}
	b.err = errors.New("away")
	if err := c.Refund(t.Context(), b, before); !errors.Is(err, b.err) {
		t.Errorf("Refund = %v, want the error of the Store", err)
	}
	b.err = nil
	c = mustParse(t, `{"rules": [{"name": "address", "key": "address", "limits": "10/h"}, {"name": "no", "key": "client", "missing": "refuse", "limits": "1/h"}]}`)
	if err := c.Refund(t.Context(), nil, before); err != nil {
		t.Errorf("Refund of what was refused = %v, want no call of the Store", err)
	}
	if err := mustParse(t, `{"rules": []}`).Refund(t.Context(), nil, before); err != nil {
		t.Errorf("Refund where nothing was taken = %v, want no call of the Store", err)
	}
}

// Without a key all requests share one key.
func TestAnswerIsCommon(t *testing.T) {
	for text, want := range map[string]bool{
		`{"rules": {"name": "one", "in_flight": 1}}`:                    true,
		`{"rules": {"name": "one", "key": "address", "in_flight": 1}}`:  false,
		`{"rules": {"name": "one", "limits": "1/h"}}`:                   true,
		`{"rules": {"name": "one", "key": "address", "limits": "1/h"}}`: false,
	} {
		c, b, f := mustParse(t, text), newBook(), new(store.InFlight)
		admit(t, c, b, f, "192.0.2.1")
		if a, _ := admit(t, c, b, f, "192.0.2.1"); a.OK || a.Rule != "one" || a.Common != want {
			t.Errorf("%s: the second answer is %+v; want a refusal, common %t", text, a, want)
		}
	}
}
