package rules_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// What has an Until counts before it, and not from then on.
func TestUntil(t *testing.T) {
	c := mustParse(t, `{
		"deny": ["client=bad", {"entry": "client=late", "until": "2026-12-01T12:00:00Z", "why": "abuse", "by": "jane"},
			{"entry": "10.0.0.0/8", "until": "2026-12-01T12:00:00Z"}, {"entry": "10.1.0.0/16", "until": "2026-12-01T13:00:00+01:00"},
			{"entry": "client=guest-*", "until": "2026-12-01T12:00:00Z"},
			{"entry": "client=twice", "until": "2026-12-01T13:00:00Z"}, {"entry": "client=twice", "until": "2026-12-01T12:00:00Z"}],
		"allow": {"entry": "client=friend", "until": "2026-12-01T12:00:00Z"},
		"rules": {"name": "r", "key": "client", "limits": "1/h", "overrides": [
			{"key": "acme", "limits": "5/h", "until": "2026-12-01T12:00:00Z"},
			{"key": "acme", "limits": "4/h", "until": "2026-12-01T12:00:01Z"},
			{"key": "acme", "limits": "3/h"},
			{"key": "once", "limits": "5/h", "until": "2026-12-01T12:00:00Z"},
			{"key": "on*", "limits": "2/h", "until": "2026-12-01T12:00:01Z"}
		]}}`)
	for _, x := range []struct {
		client, address string
		after           time.Duration // noon
		entry           string
		limit           int64
	}{
		{"bad", "", -1, "client=bad", 0},
		{"bad", "", time.Hour, "client=bad", 0},
		{"late", "", -1, "client=late", 0},
		{"late", "", 0, "", 1},
		{"guest-1", "", -1, "client=guest-*", 0},
		{"guest-1", "", 0, "", 1},
		{"twice", "", 0, "client=twice", 0},
		{"x", "10.1.2.3", -1, "10.0.0.0/8", 0},
		{"x", "10.1.2.3", 0, "", 1},
		{"friend", "", -1, "client=friend", 0},
		{"friend", "", 0, "", 1},
		{"acme", "", -1, "", 5},
		{"acme", "", 0, "", 4},
		{"acme", "", time.Second, "", 3},
		{"once", "", -1, "", 5},
		{"once", "", 0, "", 2},
		{"once", "", time.Second, "", 1},
	} {
		r := rules.Request{Client: x.client, Now: noon.Add(x.after)}
		if x.address != "" {
			r.Address = addr(x.address)
		}
		if a := ask(t, c, newBook(), r); a.Entry != x.entry || a.Limit.Count != x.limit {
			t.Errorf("%s %s at noon %+v: entry %q, limit %d; want %q, %d", x.client, x.address, x.after, a.Entry, a.Limit.Count, x.entry, x.limit)
		}
	}
	again := mustParse(t, mustText(t, c))
	if again.Version() != c.Version() {
		t.Errorf("read from its own text it is version %s, want %s", again.Version(), c.Version())
	}
	bubble.Test(t, func(t *testing.T) { // without a time it is that of the clock: in a bubble, long before
		if a := ask(t, c, newBook(), rules.Request{Client: "late"}); a.Entry == "" {
			t.Error("a request without a time is not refused by an entry that has not ended")
		}
		time.Sleep(time.Until(noon))
		if a := ask(t, c, newBook(), rules.Request{Client: "late"}); a.Entry != "" {
			t.Errorf("a request without a time is refused by %q, which has ended", a.Entry)
		}
	})
}

func mustText(t *testing.T, c *rules.Compiled) string {
	t.Helper()
	text, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Kill: nothing is refused, all is counted, and the answers say so.
func TestKill(t *testing.T) {
	text := `{"deny": "client=bad", "rules": [
		{"name": "whole", "match": {"paths": "/whole"}, "key": "header:X-A", "missing": "refuse", "limits": "9/h"},
		{"name": "r", "key": "client", "limits": "2/h"},
		{"name": "busy", "match": {"paths": "/busy"}, "in_flight": 1}
	]`
	b := newBook()
	f := new(store.InFlight)
	c := mustParse(t, text+`, "kill": true}`)
	for i, x := range []struct {
		client, path, rule, entry string
		reason                    rules.Reason
	}{
		{"a", "/", "r", "", rules.Within},
		{"a", "/", "r", "", rules.Within},
		{"a", "/", "r", "", rules.Killed},
		{"bad", "/", "", "client=bad", rules.Killed},
		{"b", "/whole", "whole", "", rules.Killed},
		{"c", "/busy", "r", "", rules.Within},
		{"d", "/busy", "busy", "", rules.Killed},
	} {
		a, _, err := c.Admit(t.Context(), b, f, rules.Request{Client: x.client, Path: x.path})
		if err != nil || !a.OK || a.Reason != x.reason || a.Rule != x.rule || a.Entry != x.entry {
			t.Errorf("Admit %d of %s = %+v, %v; want it to pass as %v by %q%q", i, x.client, a, err, x.reason, x.rule, x.entry)
		}
	}
	for client, want := range map[string]int64{"a": 2, "bad": 1, "b": 1, "c": 1} {
		if got := b.used("r/0/client=" + client); got != want {
			t.Errorf("%s has used %d, want %d", client, got, want)
		}
	}
	b.err = errors.New("away")
	a, err := c.Decide(t.Context(), b, rules.Request{Client: "a"})
	if err != nil || !a.OK || a.Reason != rules.Killed || !errors.Is(a.StoreErr, b.err) {
		t.Errorf("without the Store: %+v, %v; want it to pass and the error in it", a, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Decide(gone, b, rules.Request{Client: "a"}); err == nil {
		t.Error("a caller that has gone got a decision")
	}
	b.err = nil
	if a := ask(t, mustParse(t, text+`}`), b, rules.Request{Client: "a"}); a.OK {
		t.Errorf("without kill: %+v, want it refused", a)
	}
}

// A shadow limit is tried out beside the real one, and refuses nothing.
func TestShadowLimit(t *testing.T) {
	c := mustParse(t, `{"rules": {"name": "r", "key": "client", "limits": "3/h", "in_flight": 9, "cost": 1, "priority": "high",
		"shadow": {"limits": ["2/h", "9/h"], "in_flight": 1}, "overrides": {"key": "acme", "limits": "9/h"}}}`)
	b, f := newBook(), new(store.InFlight)
	for i, want := range []struct {
		ok, shadow bool
	}{{true, false}, {true, false}, {true, true}, {false, false}} {
		a, h, err := c.Admit(t.Context(), b, f, rules.Request{Client: "x"})
		h.Release()
		if err != nil || a.OK != want.ok || slices.Contains(a.Shadow, "r") != want.shadow {
			t.Errorf("Admit %d = %+v, %v; want OK %t, shadow %t", i, a, err, want.ok, want.shadow)
		}
	}
	for key, want := range map[string]int64{"r/0/client=x": 3, "r/s0/client=x": 2, "r/s1/client=x": 2} {
		if got := b.used(key); got != want {
			t.Errorf("%s has used %d, want %d", key, got, want)
		}
	}
	_, first, _ := c.Admit(t.Context(), b, f, rules.Request{Client: "y"})
	a, second, err := c.Admit(t.Context(), b, f, rules.Request{Client: "y"})
	if err != nil || !a.OK || len(a.Shadow) != 1 {
		t.Errorf("two in flight = %+v, %v; want the second to pass, and shadow", a, err)
	}
	first.Release()
	second.Release()
	if n := f.Stats().Holds; n != 0 {
		t.Errorf("%d are in flight after all were released", n)
	}
	for range 5 {
		if a := ask(t, c, b, rules.Request{Client: "acme"}); !a.OK || a.Shadow != nil {
			t.Errorf("a key with an override = %+v, want no shadow", a)
		}
	}
	if got := b.used("r/s0/client=acme"); got != 0 {
		t.Errorf("a key with an override has used %d of the shadow limit, want 0", got)
	}
}

// Without the Store each rule counts as its Away says.
func TestAway(t *testing.T) {
	c := mustParse(t, `{"rules": [
		{"name": "unset", "match": {"paths": ["/unset", "/both"]}, "limits": "4/h"},
		{"name": "share", "match": {"paths": ["/share", "/mixed", "/three"]}, "limits": "4/h", "away": "share"},
		{"name": "pass", "match": {"paths": ["/pass", "/both", "/mixed", "/three"]}, "limits": "4/h", "away": "pass"},
		{"name": "refuse", "match": {"paths": ["/refuse", "/three"]}, "limits": "4/h", "away": "refuse"}
	]}`)
	b := newBook()
	b.err = errors.New("away")
	for _, x := range []struct {
		path        string
		alone       bool // passes without a Guard
		local, deny int  // how many of 10 pass a Guard of two instances with that Fallback
	}{
		{"/unset", false, 2, 0},
		{"/share", false, 2, 2},
		{"/pass", true, 10, 10},
		{"/refuse", false, 0, 0},
		{"/both", false, 2, 0},
		{"/mixed", false, 2, 2},
		{"/three", false, 0, 0},
	} {
		a, err := c.Decide(t.Context(), b, rules.Request{Path: x.path})
		if a.OK != x.alone || (err == nil) != x.alone || x.alone && (a.Reason != rules.Away || !errors.Is(a.StoreErr, b.err)) {
			t.Errorf("%s without a Guard = %+v, %v; want it to pass: %t", x.path, a, err, x.alone)
		}
		for fallback, want := range map[store.Fallback]int{store.FallbackLocal: x.local, store.FallbackDeny: x.deny} {
			g, passed := &store.Guard{Store: b, Fallback: fallback, Instances: 2}, 0
			for range 10 {
				if a, err := c.Decide(t.Context(), g, rules.Request{Path: x.path}); err != nil {
					t.Errorf("%s with a Guard: %v", x.path, err)
				} else if a.OK {
					passed++
				}
			}
			if passed != want {
				t.Errorf("%s with a Guard of Fallback %d: %d of 10 pass, want %d", x.path, fallback, passed, want)
			}
		}
	}
	// What one refuses is not charged to the share of another.
	g := &store.Guard{Store: b}
	for range 3 {
		_, _ = c.Decide(t.Context(), g, rules.Request{Path: "/three"})
	}
	if a, err := c.Decide(t.Context(), g, rules.Request{Path: "/share"}); err != nil || a.Decision.Remaining != 3 {
		t.Errorf("after requests that were refused: %+v, %v; want 3 of 4 left", a, err)
	}
	d := []limit.Decision{{}}
	if ok, err := g.Take(t.Context(), []limit.Ask{{Key: "refuse/0", Limit: limit.Limit{Count: 1, Period: time.Hour}, N: 1}}, d); err != nil || !ok {
		t.Errorf("a Take that is not of rules = %v, %v; want the Fallback of the Guard", ok, err)
	}
}

// A switch has the value of the first case that matches and has not ended.
func TestSwitch(t *testing.T) {
	c := mustParse(t, `{"rules": [], "switches": [
		{"name": "search", "value": "old", "cases": [
			{"key": "beta-*", "value": "new", "until": "2026-12-01T12:00:00Z"},
			{"key": "acme", "value": "own", "until": "2026-12-01T13:00:00Z"}, {"key": "ac*", "value": 7}, {"key": "acme", "value": "never"}
		]},
		{"name": "degraded", "cases": {"key": "/export/*", "value": true}}
	]}`)
	for _, x := range []struct {
		name, key string
		after     time.Duration
		want      rules.Value
	}{
		{"search", "x", 0, "old"},
		{"search", "beta-1", -1, "new"},
		{"search", "beta-1", 0, "old"},
		{"search", "acme", 0, "own"},
		{"search", "acme", time.Hour, "7"},
		{"search", "acid", 0, "7"},
		{"degraded", "/export/all", 0, "true"},
		{"degraded", "/", 0, ""},
		{"nothing", "x", 0, ""},
	} {
		if got := c.Switch(x.name, x.key, noon.Add(x.after)); got != x.want {
			t.Errorf("Switch(%s, %s, noon + %v) = %q, want %q", x.name, x.key, x.after, got, x.want)
		}
	}
	if !c.Switch("degraded", "/export/all", noon).On() || rules.Value("off").On() {
		t.Error("On: true is not on, or off is")
	}
	if got := (*rules.Compiled)(nil).Switch("a", "b", noon); got != "" {
		t.Errorf("Switch of nil = %q", got)
	}
	if again := mustParse(t, mustText(t, c)); again.Version() != c.Version() {
		t.Errorf("read from its own text it is version %s, want %s", again.Version(), c.Version())
	}
}
