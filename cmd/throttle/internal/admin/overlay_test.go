package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

const threeRules = `{"version": "v1", "rules": [
	{"name": "per-client", "key": "client", "limits": "2/h", "overrides": [{"key": "partner", "limits": "5/h"}]},
	{"name": "login", "match": {"paths": "/login"}, "key": "address+header:X-Tenant", "limits": ["3/h", "10/day"]}
], "switches": [{"name": "cheap", "value": "false"}]}`

// instance is one process of several that share a store and an overlay.
type instance struct {
	*running
	t       *testing.T
	stack   *rules.Stack
	source  *rules.Source
	text    string
	control admit.Control
	counter admit.Counter
}

// instances starts n of them. They look at the overlay when they are asked to.
func instances(t *testing.T, n int) (all []*instance) {
	t.Helper()
	shared, counts := &rules.File{Path: filepath.Join(t.TempDir(), "overlay.json")}, new(memory.Store)
	for range n {
		one := &instance{t: t, text: threeRules}
		one.source = &rules.Source{Fetch: func(context.Context, string) ([]byte, string, error) { return []byte(one.text), "", nil }}
		one.stack = &rules.Stack{Sources: []*rules.Source{one.source}, Shared: shared}
		if err := one.stack.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		one.control = admit.Control{Store: counts, Rules: &one.stack.Live, OnEvent: one.counter.OnEvent}
		one.running = start(t, Config{
			Tokens: tokens, Stack: one.stack, Sources: []Source{{"file", one.source}}, Store: counts, Counter: &one.counter,
			Reload: one.stack.Refresh,
		})
		all = append(all, one)
	}
	return all
}

// passes has n requests of a client decided, as if it were later by some time, and
// returns how many passed.
func (x *instance) passes(n int, client string, later time.Duration) (passed int) {
	x.t.Helper()
	for range n {
		a, err := x.control.Begin(x.t.Context(), admit.Request{Request: rules.Request{Client: client, Path: "/", Now: time.Now().Add(later)}})
		if err != nil {
			x.t.Fatal(err)
		}
		if a.OK {
			passed++
		}
		a.Done()
	}
	return passed
}

// look has an instance look at the overlay now, as it does now and then.
func (x *instance) look() {
	x.t.Helper()
	if err := x.stack.Look(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

// because is the body of a write, with a reason.
func because(pairs ...any) map[string]any {
	body := map[string]any{"why": "ticket 4711", "by": "jane@example.org"}
	for i := 0; i < len(pairs); i += 2 {
		body[pairs[i].(string)] = pairs[i+1]
	}
	return body
}

// TestRaise: a raise counts in the instance that was asked and in the others, ends
// by itself, and can be ended before.
func TestRaise(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	if n := a.passes(3, "acme", 0); n != 2 {
		t.Fatalf("%d of 3 passed before", n)
	}
	a.must("PUT", "/api/v1/raise", because("rule", "per-client", "key", []string{"acme"}, "limits", []string{"6/h"}, "for", "1h"))
	if n := a.passes(9, "acme", 0); n != 4 {
		t.Errorf("after a raise to 6, 2 used, %d passed", n)
	}
	b.look()
	if n := b.passes(1, "acme", 0); n != 0 {
		t.Errorf("in the other instance %d passed beyond the raise", n)
	}
	b.must("PUT", "/api/v1/raise", because("rule", "per-client", "key", []string{"acme"}, "times", 4, "for", "1h"))
	if n := b.passes(99, "acme", 0); n != 18 {
		t.Errorf("after four times 6, 6 used, %d passed", n)
	}
	a.look()
	var is keyState
	if a.get("/api/v1/key?rule=per-client&key=acme", &is); !is.Override || is.Limits[0].Max != 24 {
		t.Errorf("the key in the first instance: %+v", is)
	}
	if n := a.passes(1, "other", 0) + a.passes(9, "other", 0); n != 2 {
		t.Errorf("%d of another key passed", n)
	}
	if n := a.passes(1, "acme", 61*time.Minute); n != 0 {
		t.Error("after its end the raise still counts")
	}
	a.must("DELETE", "/api/v1/raise", because("rule", "per-client", "key", []string{"acme"}))
	b.look()
	if b.get("/api/v1/key?rule=per-client&key=acme", &is); is.Override || is.Limits[0].Max != 2 {
		t.Errorf("after it was ended: %+v", is)
	}
	if got := a.write("DELETE", "/api/v1/raise", because("rule", "per-client", "key", []string{"acme"})); got.status != 404 {
		t.Errorf("ended twice: %d %s", got.status, got.body)
	}
}

// TestBlock: a block and an exemption count in all instances and end by
// themselves.
func TestBlock(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	a.must("PUT", "/api/v1/block", because("entry", "client=mallory", "for", "30m"))
	b.look()
	for _, x := range all {
		if n := x.passes(1, "mallory", 0); n != 0 {
			t.Error("a blocked client passed")
		}
	}
	if n := b.passes(1, "mallory", 31*time.Minute); n != 1 {
		t.Error("the block did not end")
	}
	a.must("PUT", "/api/v1/exempt", because("entry", "client=probe", "for", "30m"))
	b.look()
	if n := b.passes(50, "probe", 0); n != 50 {
		t.Errorf("%d of 50 of an exempt client passed", n)
	}
	if n := b.passes(50, "probe", 31*time.Minute); n != 2 {
		t.Errorf("after the exemption %d passed", n)
	}
	b.must("DELETE", "/api/v1/block", because("entry", "client=mallory"))
	a.look()
	if n := a.passes(1, "mallory", 0); n != 1 {
		t.Error("a block that was ended refuses")
	}
}

// TestKill: while the kill switch is on, nothing is refused in any instance, and
// what would be is counted.
func TestKill(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	a.must("PUT", "/api/v1/kill", because("for", "10m"))
	b.look()
	if n := b.passes(9, "acme", 0); n != 9 {
		t.Errorf("%d of 9 passed while it is on", n)
	}
	var status struct {
		Rules     rulesState
		Decisions map[string]int64
		Sources   []sourceState
	}
	if b.get("/api/v1/status", &status); !status.Rules.Kill || status.Decisions["killed"] != 7 || len(status.Sources) != 2 || status.Sources[1].Name != "overlay" {
		t.Errorf("status %+v", status)
	}
	if n := b.passes(9, "acme", 11*time.Minute); n != 0 {
		t.Errorf("after its end %d passed", n)
	}
	b.must("DELETE", "/api/v1/kill", because())
	if n := b.passes(9, "acme", 0); n != 0 {
		t.Errorf("after it was switched off %d passed", n)
	}
	if got := b.write("DELETE", "/api/v1/kill", because()); got.status != 404 {
		t.Errorf("switched off twice: %d %s", got.status, got.body)
	}
}

// TestSwitches: programs see the value of a switch by key, in all instances.
func TestSwitches(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	a.must("PUT", "/api/v1/switches/cheap", because("key", "acme*", "value", true, "for", "1h"))
	a.must("PUT", "/api/v1/switches/new", because("key", "*", "value", "blue"))
	b.look()
	for path, want := range map[string]string{"cheap?key=acme-1": `"value":"true","on":true`, "cheap?key=other": `"value":"false"`, "cheap": ``, "new?key=x": `"value":"blue"`} {
		var is struct {
			Value string
			On    bool
		}
		b.get("/api/v1/switches/"+path, &is)
		if got := fmt.Sprintf(`"value":%q,"on":%v`, is.Value, is.On); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if v := b.stack.Live.Load().Switch("cheap", "acme-1", time.Now().Add(61*time.Minute)); v != "false" {
		t.Errorf("after its end the switch is %q", v)
	}
	a.must("DELETE", "/api/v1/switches/new", because("key", "*"))
	if got := a.send("GET", "/api/v1/switches/new", "", "Authorization", "Bearer "+readSecret); got.status != 404 {
		t.Errorf("a switch that was removed: %d %s", got.status, got.body)
	}
}

// TestVersions: versions are listed, compared, brought back in all instances, and
// left again; a bad file keeps the old.
func TestVersions(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	for _, x := range all {
		x.text = strings.NewReplacer(`"v1"`, `"v2"`, `"2/h"`, `"1/h"`).Replace(threeRules)
		x.must("POST", "/api/v1/reload", because())
	}
	if n := a.passes(9, "acme", 0); n != 1 {
		t.Errorf("by v2 %d passed", n)
	}
	var got struct {
		Versions    []versionState
		BroughtBack bool `json:"brought_back"`
	}
	if a.get("/api/v1/versions", &got); len(got.Versions) != 2 || got.Versions[0].Name != "v2" || got.Versions[1].Name != "v1" || got.BroughtBack {
		t.Fatalf("%+v", got)
	}
	var changes struct{ Changes []string }
	if a.get("/api/v1/diff?from=v1", &changes); !strings.Contains(strings.Join(changes.Changes, "\n"), "rule per-client: limits: 1/h, was 2/h") {
		t.Errorf("the difference is %q", changes.Changes)
	}
	var set struct{ Set rules.Set }
	if a.get("/api/v1/versions/v1", &set); set.Set.Version != "v1" || len(set.Set.Rules) != 2 {
		t.Errorf("v1 is %+v", set)
	}
	a.must("PUT", "/api/v1/rollback", because("version", "v1"))
	b.look()
	for _, x := range all {
		var is keyState
		if x.get("/api/v1/key?rule=per-client&key=acme", &is); is.Limits[0].Max != 2 {
			t.Errorf("after rolling back: %+v", is)
		}
	}
	if a.get("/api/v1/versions", &got); !got.BroughtBack {
		t.Error("no version is said to be brought back")
	}
	b.must("DELETE", "/api/v1/rollback", because())
	if n := b.stack.Live.Load().Set().Rules[0].Limits[0].Count; n != 1 {
		t.Errorf("after leaving it, the limit is %d", n)
	}
	a.text = `{"rules": [{"name": "a", "limits": "1/fortnight"}]}`
	if got := a.write("POST", "/api/v1/reload", because()); got.status != 422 || !strings.Contains(got.body, "fortnight") {
		t.Errorf("a bad file: %d %s", got.status, got.body)
	}
	if text := a.send("GET", "/metrics", "", "Authorization", "Bearer "+readSecret).body; !strings.Contains(text, `throttle_name="rules"} 0`) {
		t.Error("the metrics do not say that the reload failed")
	}
	if got := a.write("PUT", "/api/v1/rollback", because("version", "v0")); got.status != 404 || !strings.Contains(got.body, "v1") {
		t.Errorf("an unknown version: %d %s", got.status, got.body)
	}
}

// TestOverlayRefuses: what would not fit the rules is refused, whole, in one line,
// and changes nothing.
func TestOverlayRefuses(t *testing.T) {
	x := instances(t, 1)[0]
	year := time.Now().Add(400 * 24 * time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		method, path string
		body         map[string]any
		want         int
		says         string
	}{
		{"PUT", "raise", because("rule", "none", "key", []string{"a"}, "limits", []string{"1/s"}, "for", "1h"), 404, "there is none of that name"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a", "b"}, "limits", []string{"1/s"}, "for", "1h"), 400, "needs 1 values"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "for", "1h"), 400, "limits: are missing"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "times", -1, "for", "1h"), 400, "times: must be above zero"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "times", 1e9, "for", "1h"), 400, "times: must be above zero"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/fortnight"}, "for", "1h"), 400, "fortnight"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/s"}), 400, "for: write for how long"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/s"}, "for", "-1h"), 400, "must be a time above zero"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/s"}, "until", year), 400, "must be in the next 366 days"},
		{"PUT", "raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/s"}, "for", "999999h"), 400, "must be at most 366d"},
		{"PUT", "block", because("entry", "planet=mars", "for", "1h"), 400, "planet"},
		{"PUT", "block", because("entry", "10.0.0.0/33", "for", "1h"), 400, "deny[0]"},
		{"PUT", "block", because("entry", "client=x"), 400, "for: write"},
		{"DELETE", "block", because("entry", "client=x"), 404, "no such entry"},
		{"PUT", "kill", because(), 400, "for: write"},
		{"PUT", "kill", map[string]any{"for": "1h"}, 400, "why: is missing"},
		{"PUT", "switches/a%20b", because("key", "*", "value", "x"), 400, "a switch needs a name"},
		{"PUT", "switches/a", because("value", "x"), 400, "key: is missing"},
		{"PUT", "switches/a", because("key", "*"), 400, "value: is missing"},
		{"PUT", "switches/a", because("key", "*", "value", []string{}), 400, "must be text, a number, true or false"},
		{"DELETE", "rollback", because(), 404, "no version was brought back"},
	} {
		got := x.write(c.method, "/api/v1/"+c.path, c.body)
		if got.status != c.want || !strings.Contains(got.body, c.says) || strings.Count(got.body, "\n") != 1 {
			t.Errorf("%s %s %v: %d %s\nwant %d %s", c.method, c.path, c.body, got.status, got.body, c.want, c.says)
		}
	}
	if o, _ := x.stack.Overlay(); o.Serial != 0 {
		t.Errorf("the overlay was changed %d times", o.Serial)
	}
	if n := len(x.stack.Versions()); n != 1 {
		t.Errorf("%d versions", n)
	}
}

// away is a Shared that fails.
type away struct{}

func (away) Load(context.Context) (string, []byte, error) {
	return "", nil, errors.New("redis is away")
}

func (away) Swap(context.Context, string, []byte) (string, bool, error) {
	return "", false, errors.New("redis is away")
}

// TestNoOverlay: without an overlay a write is refused by 409, with one that is
// away by 503, and what is read goes on.
func TestNoOverlay(t *testing.T) {
	c, err := rules.Parse([]byte(threeRules))
	if err != nil {
		t.Fatal(err)
	}
	var live rules.Live
	live.Swap(c)
	stack := &rules.Stack{Shared: away{}, Sources: []*rules.Source{{Fetch: func(context.Context, string) ([]byte, string, error) { return []byte(threeRules), "", nil }}}}
	_ = stack.Refresh(t.Context()) // the overlay is away
	for want, c := range map[int]Config{
		http.StatusConflict:           {Tokens: tokens, Rules: &live},
		http.StatusServiceUnavailable: {Tokens: tokens, Stack: stack},
	} {
		r := start(t, c)
		for _, q := range []struct {
			path string
			body map[string]any
		}{
			{"raise", because("rule", "per-client", "key", []string{"a"}, "limits", []string{"1/s"}, "for", "1h")},
			{"block", because("entry", "client=x", "for", "1h")},
			{"kill", because("for", "1h")},
			{"switches/a", because("key", "*", "value", "x")},
		} {
			if a := r.write("PUT", "/api/v1/"+q.path, q.body); a.status != want {
				t.Errorf("%s: %d %s, want %d", q.path, a.status, a.body, want)
			}
		}
		var got struct{ Rules []json.RawMessage }
		if r.get("/api/v1/rules", &got); len(got.Rules) != 2 {
			t.Errorf("%d rules", len(got.Rules))
		}
		var events struct{ Events []event }
		if r.get("/api/v1/events", &events); len(events.Events) != 4 || events.Events[0].Status != want {
			t.Errorf("events %+v", events)
		}
	}
}

// TestReadOnly: a token that reads may send none of the writes.
func TestReadOnly(t *testing.T) {
	x := instances(t, 1)[0]
	s := new(server)
	writes := 0
	for _, e := range s.endpoints() {
		method, path, _ := strings.Cut(e.pattern, " ")
		path = strings.ReplaceAll(path, "{name}", "a")
		want := 403
		if e.needs == reader {
			if method != "GET" && path != "/api/v1/try" && path != "/api/v1/whatif" {
				t.Errorf("%s is for readers", e.pattern)
			}
			continue
		}
		writes++
		if a := x.send(method, path, `{"why": "x"}`, "Authorization", "Bearer "+readSecret); a.status != want {
			t.Errorf("%s with a token that reads: %d", e.pattern, a.status)
		}
		if a := x.send(method, path, `{"why": "x"}`); a.status != 401 {
			t.Errorf("%s without a token: %d", e.pattern, a.status)
		}
		if a := x.send(method, path, `{"why": "x"}`, "Authorization", "Bearer "+writeSecret, "Sec-Fetch-Site", "cross-site"); a.status != 403 {
			t.Errorf("%s from another origin: %d", e.pattern, a.status)
		}
		if a := x.send(method, path, `{"why": "x"}`, "Authorization", "Bearer "+writeSecret, "Host", "evil.example"); a.status != 421 {
			t.Errorf("%s by another host: %d", e.pattern, a.status)
		}
	}
	if writes < 12 {
		t.Errorf("%d writes", writes)
	}
}
