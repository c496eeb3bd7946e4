package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

func TestCompileBad(t *testing.T) {
	one := func(r rules.Rule) rules.Set { r.Name = "r"; return rules.Set{Rules: []rules.Rule{r}} }
	second := []rules.Limit{{Count: 1, Period: time.Second}}
	for _, x := range []struct {
		set  rules.Set
		want string
	}{
		{one(rules.Rule{Limits: []rules.Limit{{Count: 1}}}), "rules[0].limits[0]: a limit without a period"},
		{one(rules.Rule{Limits: []rules.Limit{{Kind: 200, Count: 1, Period: 1}}}), "rules[0].limits[0]: the kind is not known; it is one of token-bucket"},
		{one(rules.Rule{Limits: []rules.Limit{{Count: 1, Period: 1, Zone: time.UTC}}}), "rules[0].limits[0]: only a calendar-window has a time zone"},
		{one(rules.Rule{Limits: []rules.Limit{{Kind: limit.CalendarWindow, Count: 1, Period: time.Hour, Zone: time.FixedZone("east", 3600)}}}), `rules[0].limits[0]: the time zone "east" cannot be found by its name`},
		{one(rules.Rule{Limits: second, Cost: rules.Cost{N: -1}}), "rules[0].cost: must be above zero"},
		{one(rules.Rule{InFlight: -1}), "rules[0].in_flight: must be above zero"},
		{rules.Set{Kill: rules.Kill{Note: rules.Note{At: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)}}}, "kill.at: must be a time of the years 1 to 9999"},
		{one(rules.Rule{InFlight: 1, Key: rules.Key{"host"}, Overrides: []rules.Override{{Key: []string{"x"}, InFlight: -1}}}), "rules[0].overrides[0].in_flight: must be above zero"},
		{one(rules.Rule{Limits: second, Priority: 9}), "rules[0].priority: must be low"},
		{one(rules.Rule{Limits: second, Key: rules.Key{"client+host"}}), `rules[0].key[0]: unknown part "client+host"`},
		{rules.Set{Proxies: rules.Proxies{Trusted: make(rules.Networks, 1)}}, "proxies.trusted[0]: not a network"},
	} {
		_, err := rules.Compile(x.set)
		var e *rules.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "rules: "+x.want) || e.Line != 0 {
			t.Errorf("Compile(%+v) = %v, want rules: %s...", x.set, err, x.want)
		}
	}
	if _, err := rules.Compile(rules.Set{}, "address"); err == nil {
		t.Error("Compile with a known name that is a part of ours = nil, want an error")
	}
	if c, err := rules.Compile(rules.Set{}); err != nil || c == nil {
		t.Errorf("Compile of the zero Set = %v, %v, want it to limit no request", c, err)
	}
}

const full = `{
	"version": "2026-11-21.3",
	"proxies": {"trusted": ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"], "header": "Forwarded"},
	"ipv6_prefix": 56,
	"deny": "198.51.100.0/24",
	"allow": ["10.1.0.0/16", "client=monitor*", "header:X-Probe=yes", "customer=acme"],
	"rules": [
		{
			"name": "r1", "off": true, "shadow": true, "phase": "before",
			"match": {"methods": "GET", "hosts": "*.Example.org", "paths": ["/a/*", "*"], "headers": {"x-a": "b*"}, "client": "unknown"},
			"key": "address+header:x-k", "missing": "refuse", "cost": "bytes",
			"limits": ["10/s burst 20", "5000/2h fixed-window", "unlimited", "9/month calendar-window", {"count": 1, "period": "1.5ms", "burst": 3}, {"count": 9, "period": "90s", "kind": "fixed-window"}],
			"overrides": [{"key": ["10.0.0.0/8", "*"], "limits": "0/s"}]
		},
		{"name": "r2", "in_flight": 3, "overrides": {"key": ["*", "x"], "in_flight": 9}, "key": ["client", "path:2"], "limits": {"count": 10, "period": "24h"}, "cost": 7, "priority": "critical"}
	]
}`

// TestRoundTrip: the JSON form of what was read reads the same.
func TestRoundTrip(t *testing.T) {
	var s, again rules.Set
	if err := json.Unmarshal([]byte(full), &s); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &again); err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("reading %s again: %v\n got %+v\nwant %+v", out, err, again, s)
	}
	want := []rules.Limit{
		{Count: 10, Period: time.Second, Burst: 20},
		{Kind: limit.FixedWindow, Count: 5000, Period: 2 * time.Hour},
		{},
		{Kind: limit.CalendarWindow, Count: 9, Period: limit.Month},
		{Count: 1, Period: 1500 * time.Microsecond, Burst: 3},
		{Kind: limit.FixedWindow, Count: 9, Period: 90 * time.Second},
	}
	if !reflect.DeepEqual(s.Rules[0].Limits, want) {
		t.Errorf("limits = %+v, want %+v", s.Rules[0].Limits, want)
	}
	c, err := rules.Compile(s, "customer", "bytes")
	if err != nil {
		t.Fatal(err)
	}
	canon, err := json.Marshal(c)
	if err != nil || string(canon) != string(out) || c.Version() != "2026-11-21.3" {
		t.Errorf("JSON of the Compiled %s = %s, %v, want %s", c.Version(), canon, err, out)
	}
}

func TestVersionOfContent(t *testing.T) {
	one := mustParse(t, `{"rules": []}`).Version()
	same := mustParse(t, "{\n\"rules\" : [ ] }").Version()
	other := mustParse(t, `{"rules": [{"name": "a", "limits": "1/s"}]}`).Version()
	if len(one) != 12 || one != same || one == other {
		t.Errorf("versions %q, %q and of other rules %q; want 12 hexadecimal digits, the same for the same rules only", one, same, other)
	}
}

// FuzzParse: no text makes Parse panic, what is refused is refused in a line
// with a place in the text, and what is accepted is the same after being
// written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"kill": {"on": true, "why": "x"}, "rules": {"name": "a", "key": "client", "limits": "1/s", "shadow": {"limits": "8/s"}, "away": "pass", "overrides": {"key": "x", "limits": "2/s", "until": "2026-12-01T00:00:00Z"}}, "switches": {"name": "s", "cases": {"key": "*", "value": 1.5}}}`))
	f.Add([]byte(`{"rules": [{"name": "a", "key": "a+b", "limits": {"count": 1, "period": "3us"}}]}`))
	f.Add([]byte(`{"rules": {"name": "a", "key": "client", "limits": [], "overrides": {"key": "x"}}}`))
	f.Add([]byte(`{"deny": "entry:a=1", "rules": {"name": "a", "key": "domain+descriptor+entry:a", "limits": "1/s", "match": {"domains": ["e*"], "descriptor": ["a=*1", {"key": "b=", "not": ["x", "y*"]}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := rules.Parse(data, "customer", "bytes")
		if err != nil {
			var e *rules.Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("Parse(%q) = %q, want one line with a place", data, err)
			}
			return
		}
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("Marshal of Parse(%q) = %v", data, err)
		}
		again, err := rules.Parse(out, "customer", "bytes")
		if err != nil {
			t.Fatalf("Parse(%s), which was written for %q = %v", out, data, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(out) || again.Version() != c.Version() {
			t.Fatalf("%q is written as\n%s and then as\n%s", data, out, twice)
		}
		_, err = c.Decide(t.Context(), newBook(), rules.Request{Path: "/", Client: "c", Cost: func(string) int64 { return math.MaxInt64 }})
		if err != nil {
			t.Fatalf("Decide by %s = %v", out, err)
		}
	})
}

func ExampleParse() {
	_, err := rules.Parse([]byte(`{"rules": [
	{"name": "per-address", "key": "adress", "limits": "10/s"}
]}`))
	fmt.Println(err)
	// Output:
	// rules: 2:33: rules[0].key[0]: unknown part "adress"; write address, client, header:NAME, host, method, path, path:N, of a descriptor domain, descriptor, entry:KEY
}
