package rules_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
)

func setOf(t *testing.T, text string) (s rules.Set) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An Overlay counts on top of a Set, which it does not change.
func TestOverlayOver(t *testing.T) {
	set := setOf(t, `{"version": "v1", "deny": "10.0.0.1", "rules": [
		{"name": "r", "key": "client", "limits": "1/h", "overrides": [{"key": "acme", "limits": "2/h"}, {"key": "b", "limits": "2/h"}, {"key": "c", "limits": "2/h"}]},
		{"name": "other", "limits": "9/h"}], "switches": {"name": "s", "value": "a"}}`)
	before := textOf(t, set)
	var o rules.Overlay
	if err := json.Unmarshal([]byte(`{"serial": 7, "deny": {"entry": "client=bad", "until": "2026-12-01T12:00:00Z"}, "allow": "client=friend",
		"overrides": {"r": [{"key": "acme", "limits": "5/h", "until": "2026-12-01T12:00:00Z"}, {"key": "b", "limits": "6/h"}, {"key": ["x", "y"], "limits": "1/h"}],
			"gone": [{"key": "a", "limits": "1/h"}, {"key": "b", "limits": "1/h"}]},
		"switches": {"s": {"key": "*", "value": "b"}, "new": {"key": "k", "value": true}}}`), &o); err != nil {
		t.Fatal(err)
	}
	merged, left := o.Over(set)
	if textOf(t, set) != before {
		t.Errorf("the Set was changed: %s, was %s", textOf(t, set), before)
	}
	want := []string{`override of rule "gone" for a: there is no such rule`, `override of rule "gone" for b: there is no such rule`, `override of rule "r" for x+y: the rule's key has 1 parts`}
	if !reflect.DeepEqual(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	c, err := rules.Compile(merged)
	if err != nil || c.Version() != "v1.7" {
		t.Fatalf("Compile: version %s, %v; want v1.7", c.Version(), err)
	}
	for _, x := range []struct {
		client string
		after  time.Duration
		limit  int64
		reason rules.Reason
	}{
		{"acme", -1, 5, rules.Within},
		{"acme", 0, 2, rules.Within},
		{"b", 0, 6, rules.Within},
		{"c", 0, 2, rules.Within},
		{"bad", -1, 0, rules.Denied},
		{"bad", 0, 1, rules.Within},
		{"friend", 0, 0, rules.Allowed},
	} {
		if a := ask(t, c, newBook(), rules.Request{Client: x.client, Now: noon.Add(x.after)}); a.Limit.Count != x.limit || a.Reason != x.reason {
			t.Errorf("%s at noon %+v: %v by %d, want %v by %d", x.client, x.after, a.Reason, a.Limit.Count, x.reason, x.limit)
		}
	}
	if s, n := c.Switch("s", "x", noon), c.Switch("new", "k", noon); s != "b" || !n.On() {
		t.Errorf("switches %q and %q, want b and true", s, n)
	}
	if none, _ := (rules.Overlay{Serial: 9}).Over(set); none.Version != "v1" {
		t.Errorf("with nothing on top it is version %s, want v1", none.Version)
	}
	trimmed := o.Trim(noon)
	if len(trimmed.Deny) != 0 || len(trimmed.Allow) != 1 || len(trimmed.Overrides["r"]) != 2 || len(o.Deny) != 1 || len(o.Overrides["r"]) != 3 {
		t.Errorf("Trim = %s of %s", textOf(t, trimmed), textOf(t, o))
	}
	for _, bad := range []string{`{"deni": []}`, `{"deny": null}`, `{"overrides": {"r": {"limits": 3}}}`, `{"kill": {"on": true, "untill": ""}}`} {
		if err := json.Unmarshal([]byte(bad), new(rules.Overlay)); err == nil || !strings.HasPrefix(err.Error(), "rules: 1:") {
			t.Errorf("%s: %v, want its place", bad, err)
		}
	}
}

// What is put is put once, and what has ended removes.
func TestOverlayPut(t *testing.T) {
	var o rules.Overlay
	past := rules.Note{Until: noon}
	o.PutDeny(rules.Entry{Text: "a=1", Note: rules.Note{Why: "x"}})
	o.PutDeny(rules.Entry{Text: "a=1", Note: rules.Note{Why: "y"}})
	o.PutAllow(rules.Entry{Text: "b=1"})
	o.PutAllow(rules.Entry{Text: "b=1", Note: past})
	o.PutOverride("r", rules.Override{Key: rules.Key{"a", "b"}, InFlight: 1})
	o.PutOverride("r", rules.Override{Key: rules.Key{"a", "b"}, InFlight: 2})
	o.PutOverride("q", rules.Override{Key: rules.Key{"a"}, InFlight: 2, Note: past})
	o.PutCase("s", rules.Case{Key: "*", Value: "1"})
	o.PutCase("s", rules.Case{Key: "x", Value: "2"})
	o.PutCase("s", rules.Case{Key: "*", Value: "3"})
	o.Kill = rules.Kill{On: true, Note: past}
	got := textOf(t, o.Trim(noon))
	want := `{"serial":0,"deny":[{"entry":"a=1","why":"y"}],"overrides":{"r":[{"key":["a","b"],"in_flight":2}]},"switches":{"s":[{"key":"*","value":"3"},{"key":"x","value":"2"}]}}`
	if got != want {
		t.Errorf("the Overlay is\n%s, want\n%s", got, want)
	}
	var again rules.Overlay
	if err := json.Unmarshal([]byte(want), &again); err != nil || textOf(t, again) != want {
		t.Errorf("read from its own text: %s, %v", textOf(t, again), err)
	}
}

// The rules of one source count on top of those of another.
func TestSetOver(t *testing.T) {
	under := setOf(t, `{"version": "u", "serial": 3, "ipv6_prefix": 56, "deny": "10.0.0.1", "rules": [{"name": "a", "limits": "1/s"}, {"name": "b", "limits": "1/s"}], "switches": {"name": "s", "value": 1}}`)
	upper := setOf(t, `{"version": "v", "serial": 9, "ipv4_prefix": 24, "deny": "10.0.0.2", "kill": true, "rules": [{"name": "c", "limits": "2/s"}, {"name": "a", "limits": "3/s"}], "switches": {"name": "s", "value": 2}}`)
	got := textOf(t, upper.Over(under))
	want := `{"version":"u.v","kill":true,"ipv6_prefix":56,"ipv4_prefix":24,"deny":["10.0.0.2","10.0.0.1"],"rules":[{"name":"a","limits":["3/s"]},{"name":"b","limits":["1/s"]},{"name":"c","limits":["2/s"]}],"switches":[{"name":"s","value":"2"}]}`
	if got != want {
		t.Errorf("Over = %s\nwant %s", got, want)
	}
}

// What one source does not say counts as the other says it, and nothing is lost.
func TestSetOverKeeps(t *testing.T) {
	full := `{"version":"u","proxies":{"trusted":["10.0.0.0/8"],"header":"Forwarded"},"ipv6_prefix":56,"ipv4_prefix":24,"deny":["10.0.0.1"],"allow":["10.0.0.2"],"rules":[{"name":"a","limits":["1/s"]}],"switches":[{"name":"s","value":"1"}]}`
	other := `{"proxies":{"trusted":["192.168.0.0/16"],"header":"X-Forwarded-For"},"ipv6_prefix":48,"ipv4_prefix":32,"allow":["10.0.0.3"],"rules":[],"switches":[{"name":"t","value":"2"}]}`
	both := `{"version":"u","proxies":{"trusted":["192.168.0.0/16"],"header":"X-Forwarded-For"},"ipv6_prefix":48,"ipv4_prefix":32,"deny":["10.0.0.1"],"allow":["10.0.0.3","10.0.0.2"],"rules":[{"name":"a","limits":["1/s"]}],"switches":[{"name":"s","value":"1"},{"name":"t","value":"2"}]}`
	for _, c := range [][3]string{{full, `{"rules":[]}`, full}, {`{"rules":[]}`, full, full}, {other, full, both}} {
		if got := textOf(t, setOf(t, c[0]).Over(setOf(t, c[1]))); got != c[2] {
			t.Errorf("%s\nover %s\n = %s\nwant %s", c[0], c[1], got, c[2])
		}
	}
}

// Of two kill switches the one that is on for longer counts.
func TestOverlayKill(t *testing.T) {
	ends := func(after time.Duration) rules.Kill {
		return rules.Kill{On: true, Note: rules.Note{Until: noon.Add(after)}}
	}
	off, on, early, late := rules.Kill{}, rules.Kill{On: true}, ends(0), ends(time.Hour)
	for _, x := range []struct{ a, b, want rules.Kill }{
		{off, off, off}, {off, on, on}, {off, early, early}, {early, late, late}, {early, on, on}, {late, on, on}, {on, on, on},
	} {
		for _, of := range [][2]rules.Kill{{x.a, x.b}, {x.b, x.a}} {
			merged, _ := rules.Overlay{Kill: of[0]}.Over(rules.Set{Kill: of[1]})
			if merged.Kill != x.want {
				t.Errorf("%+v on top of %+v = %+v, want %+v", of[0], of[1], merged.Kill, x.want)
			}
			if merged := (rules.Set{Kill: of[0]}).Over(rules.Set{Kill: of[1]}); merged.Kill != x.want {
				t.Errorf("a source of %+v on top of %+v = %+v, want %+v", of[0], of[1], merged.Kill, x.want)
			}
		}
	}
}

// TestDiffMoved: a limit that gets another place in its rule starts over there, and Diff
// says so.
func TestDiffMoved(t *testing.T) {
	of := func(limits string) rules.Set {
		return setOf(t, `{"rules": [{"name": "a", "limits": `+limits+`}]}`)
	}
	for _, c := range []struct {
		old, now string
		moved    []string
	}{
		{`"100/h"`, `["20/s", "100/h"]`, []string{"rule a: 100/h is limit 2 now, was 1: what it has used stays with limit 1"}},
		{`["20/s", "100/h"]`, `"100/h"`, []string{"rule a: 100/h is limit 1 now, was 2: what it has used stays with limit 2"}},
		{`["20/s", "100/h"]`, `["100/h", "20/s"]`, []string{
			"rule a: 100/h is limit 1 now, was 2: what it has used stays with limit 2",
			"rule a: 20/s is limit 2 now, was 1: what it has used stays with limit 1",
		}},
		{`"100/h"`, `["100/h", "20/s"]`, nil},
		{`["20/s", "100/h"]`, `["30/s", "100/h"]`, nil},
		{`"100/h"`, `["100/h", "100/h"]`, nil},
	} {
		got := rules.Diff(of(c.old), of(c.now))
		if len(got) == 0 || !slices.Equal(got[1:], c.moved) {
			t.Errorf("%s to %s: %q, want after the first %q", c.old, c.now, got, c.moved)
		}
	}
}

func TestDiff(t *testing.T) {
	old := setOf(t, `{"version": "1", "deny": ["10.0.0.1", "10.0.0.2", "10.0.0.1"], "rules": [
		{"name": "a", "key": "client", "limits": "1/s", "overrides": [{"key": "x", "limits": "2/s"}, {"key": "y", "limits": "2/s"}]},
		{"name": "gone", "limits": "1/s"}, {"name": "same", "limits": "1/s"}], "switches": {"name": "s", "value": "old"}}`)
	now := setOf(t, `{"version": "2", "deny": ["10.0.0.2", {"entry": "10.0.0.3", "until": "2026-12-01T12:00:00Z"}], "kill": true, "rules": [
		{"name": "a", "key": "client", "limits": ["1/s", "5/m"], "shadow": true, "overrides": [{"key": "x", "limits": "3/s", "until": "2026-12-01T12:00:00Z"}, {"key": "z", "limits": "2/s"}]},
		{"name": "same", "limits": "1/s"}, {"name": "new", "limits": "7/s"}], "switches": {"name": "s", "value": "new", "cases": {"key": "*", "value": true}}}`)
	want := []string{
		`version: "2", was "1"`,
		`kill: true, was none`,
		`deny: 10.0.0.3: added until 2026-12-01T12:00:00Z`,
		`deny: 10.0.0.1: removed`,
		`rule a: limits: 1/s and 5/min, was 1/s`,
		`rule a: override for x: limits 3/s until 2026-12-01T12:00:00Z, was limits 2/s`,
		`rule a: override for z: added, limits 2/s`,
		`rule a: override for y: removed`,
		`rule a: shadow: true, was none`,
		`rule new: added, limits 7/s`,
		`rule gone: removed`,
		`switch s: new, was old`,
		`switch s: *: added, true`,
	}
	if got := rules.Diff(old, now); !reflect.DeepEqual(got, want) {
		t.Errorf("Diff:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := rules.Diff(now, now); got != nil {
		t.Errorf("Diff of the same = %q", got)
	}
	var many rules.Set
	for range 300 {
		many.Rules = append(many.Rules, rules.Rule{Name: strings.Repeat("x", len(many.Rules)+1)})
	}
	got := rules.Diff(rules.Set{}, many)
	if len(got) != 101 || got[100] != "and 200 more" || len(got[99]) > 512 {
		t.Errorf("Diff of 300 changes has %d lines, the last %q", len(got), got[len(got)-1])
	}
}
