package admin

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// world is a Control whose rules and store an admin role looks at.
type world struct {
	t       *testing.T
	live    rules.Live
	control admit.Control
	counter admit.Counter
}

func newWorld(t *testing.T, text string, known ...string) *world {
	t.Helper()
	w := &world{t: t}
	c, err := rules.Parse([]byte(text), known...)
	if err != nil {
		t.Fatal(err)
	}
	w.live.Swap(c)
	w.control = admit.Control{Store: new(memory.Store), Rules: &w.live, InFlight: new(store.InFlight), OnEvent: w.counter.OnEvent}
	return w
}

func (w *world) config() Config {
	return Config{Tokens: tokens, Rules: &w.live, Store: w.control.Store, Counter: &w.counter}
}

// send has a request decided, and reports whether it passed.
func (w *world) send(q rules.Request) bool {
	w.t.Helper()
	a, err := w.control.Begin(w.t.Context(), admit.Request{Request: q})
	if err != nil {
		w.t.Fatal(err)
	}
	a.Done()
	return a.OK
}

const manyKinds = `{"version": "v1", "rules": [
	{"name": "bucket", "match": {"paths": "/bucket"}, "key": "client", "limits": ["3/h", "100/day"], "overrides": [{"key": "big", "limits": "30/h"}]},
	{"name": "fixed", "match": {"paths": "/fixed"}, "key": "client", "limits": "3/h fixed-window"},
	{"name": "sliding", "match": {"paths": "/sliding"}, "key": "client", "limits": "3/h sliding-window"},
	{"name": "log", "match": {"paths": "/log"}, "key": "client", "limits": "3/h sliding-log"},
	{"name": "slots", "match": {"paths": "/slots"}, "key": "client", "limits": "3/h sliding-slots"},
	{"name": "all", "match": {"paths": "/all"}, "limits": "3/h"},
	{"name": "net", "match": {"paths": "/a/net/*"}, "key": "address+path:2+header:X-Tenant+customer", "limits": "3/h"},
	{"name": "user", "match": {"domains": "edge", "descriptor": ["user", "path=/u*"]}, "key": "entry:user+address", "limits": "3/h"},
	{"name": "described", "match": {"domains": "edge", "descriptor": "to"}, "key": "domain+descriptor", "limits": "3/h"}
]}`

// TestKey: what is left of each limit is read without charging, and forgiving
// makes it whole, whatever the kind of limit.
func TestKey(t *testing.T) {
	w := newWorld(t, manyKinds, "customer")
	c := w.config()
	c.Known = []string{"customer"}
	r := start(t, c)
	net := rules.Request{
		Path: "/a/net/x", Address: netip.MustParseAddr("2001:db8::7"), Header: func(string) string { return "t/1" },
		Value: func(string) (string, bool) { return "acme", true },
	}
	for _, k := range []struct {
		rule, key string
		send      rules.Request
	}{
		{"bucket", "acme", rules.Request{Path: "/bucket", Client: "acme"}},
		{"fixed", "acme", rules.Request{Path: "/fixed", Client: "acme"}},
		{"sliding", "acme", rules.Request{Path: "/sliding", Client: "acme"}},
		{"log", "acme", rules.Request{Path: "/log", Client: "acme"}},
		{"slots", "acme", rules.Request{Path: "/slots", Client: "acme"}},
		{"all", "", rules.Request{Path: "/all"}},
		{"net", "2001:db8::/64 net t/1 acme", net},
		{"user", "jane 192.0.2.1", rules.Request{Domain: "edge", Descriptor: []rules.Pair{{Key: "user", Value: "jane"}, {Key: "path", Value: "/u/1"}}, Address: netip.MustParseAddr("192.0.2.1")}},
		{"described", "edge to=a%2Cb", rules.Request{Domain: "edge", Descriptor: []rules.Pair{{Key: "to", Value: "a,b"}}}},
	} {
		var key []string
		path := "/api/v1/key?rule=" + k.rule
		for _, part := range strings.Fields(k.key) {
			key = append(key, part)
			path += "&key=" + url.QueryEscape(part)
		}
		left := func(want int64, retry bool) {
			t.Helper()
			for range 2 { // looking charges nothing
				var is keyState
				r.get(path, &is)
				if len(is.Limits) == 0 {
					t.Fatalf("%s: no limit", k.rule)
				}
				l := is.Limits[0]
				if l.Remaining != want || l.Max != 3 || l.RetryAfter == nil || (*l.RetryAfter > 0) != retry || *l.RetryAfter > 7200 || retry && k.rule == "bucket" && *l.RetryAfter > 1200 || (want < 3) != l.Until.After(time.Now()) || is.Override {
					t.Errorf("%s: %+v, want %d left", k.rule, is, want)
				}
			}
		}
		left(3, false)
		w.send(k.send)
		left(2, false)
		w.send(k.send)
		w.send(k.send)
		if w.send(k.send) {
			t.Errorf("%s: a fourth request passed", k.rule)
		}
		left(0, true)
		r.must("POST", "/api/v1/forgive", map[string]any{"rule": k.rule, "key": key, "why": "test"})
		left(3, false)
		if !w.send(k.send) {
			t.Errorf("%s: a key that was forgiven is refused", k.rule)
		}
	}
	var is keyState
	if r.get("/api/v1/key?rule=bucket&key=big", &is); !is.Override || is.Limits[0].Max != 30 || is.Key != nil || len(is.Limits) != 1 {
		t.Errorf("a key with an override: %+v", is)
	}
}

// TestForgiveMuch: a key that used trillions, as of bytes, has all of it back.
func TestForgiveMuch(t *testing.T) {
	const limits = "5000000000000/day fixed-window"
	w := newWorld(t, `{"rules": [{"name": "bytes", "key": "client", "limits": "`+limits+`"}]}`)
	r := start(t, w.config())
	l, err := limit.Parse(limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Take(t.Context(), w.control.Store, "bytes/0/client=acme", l, l.Count-1); err != nil {
		t.Fatal(err)
	}
	r.must("POST", "/api/v1/forgive", map[string]any{"rule": "bytes", "key": "acme", "why": "test"})
	var is keyState
	if r.get("/api/v1/key?rule=bytes&key=acme", &is); is.Limits[0].Remaining != l.Count {
		t.Errorf("%d of %d remain after forgive, want all", is.Limits[0].Remaining, l.Count)
	}
}

// TestKeyRefuses: bad questions have one line each.
func TestKeyRefuses(t *testing.T) {
	w := newWorld(t, manyKinds, "customer")
	c := w.config()
	c.Known = []string{"customer"}
	r := start(t, c)
	for path, want := range map[string]string{
		"?rule=none&key=a":                              `404 rule "none": there is none of that name`,
		"?rule=bucket":                                  `400 key: the rule counts by "client", so it needs 1 values, not 0`,
		"?rule=bucket&key=":                             "400 rule bucket counts by client: each part needs a value",
		"?rule=all&key=x":                               `400 key: the rule counts by "", so it needs 0 values, not 1`,
		"?rule=net&key=home&key=a&key=b&key=c":          `400 key "home": must be an address or its network`,
		"?rule=net&key=192.0.2.1&key=a/x&key=b&key=c":   `400 key "a/x": must be one segment of a path, without '/'`,
		"?rule=net&key=192.0.2.0/24&key=a&key=b&key=c":  `400 key "192.0.2.0/24": the network has several keys; write one of them, as 192.0.2.0`,
		"?rule=net&key=2001:db8::/48&key=a&key=b&key=c": `400 key "2001:db8::/48": the network has several keys; write one of them, as 2001:db8::/64`,
	} {
		a := r.send("GET", "/api/v1/key"+path, "", "Authorization", "Bearer "+readSecret)
		if got := fmt.Sprint(a.status) + " " + a.body; !strings.HasPrefix(a.body, `{"type":"about:blank"`) || a.status != int(want[0]-'0')*100+int(want[2]-'0') || !strings.Contains(strings.ReplaceAll(a.body, `\"`, `"`), want[4:]) {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	for _, key := range []string{"192.0.2.1/32", "2001:db8::/64", "2001:db8::7", "2001:db8::7/128"} {
		var is keyState
		if r.get("/api/v1/key?rule=net&key="+key+"&key=a&key=b&key=c", &is); len(is.Limits) != 1 {
			t.Errorf("key %s: %+v, want its limit", key, is)
		}
	}
	none := start(t, Config{})
	if a := none.send("GET", "/api/v1/key?rule=a", ""); a.status != 404 {
		t.Errorf("without rules: %d", a.status)
	}
}

// TestWrites: a write needs the token that may write, JSON of bounded size, known
// fields, and a reason; each is recorded, with who was proven to send it.
func TestWrites(t *testing.T) {
	w := newWorld(t, manyKinds, "customer")
	var log locked
	c := w.config()
	c.Known, c.Log = []string{"customer"}, slog.New(slog.NewJSONHandler(&log, nil))
	r := start(t, c)
	good := `{"rule": "bucket", "key": ["secret-key"], "why": "ticket 4711", "by": "jane@example.org"}`
	auth := []string{"Authorization", "Bearer " + writeSecret}
	for _, q := range []struct {
		name, body string
		fields     []string
		want       int
	}{
		{"good", good, auth, 200},
		{"a token that reads", good, []string{"Authorization", "Bearer " + readSecret}, 403},
		{"no token", good, nil, 401},
		{"a bad token", good, []string{"Authorization", "Bearer x"}, 401},
		{"a form", good, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, auth...), 415},
		{"text", good, append([]string{"Content-Type", "text/plain"}, auth...), 415},
		{"another origin", good, append([]string{"Origin", "http://evil.example"}, auth...), 403},
		{"another host", good, append([]string{"Host", "evil.example"}, auth...), 421},
		{"no reason", `{"rule": "bucket", "key": ["a"]}`, auth, 400},
		{"a long reason", `{"rule": "bucket", "key": ["a"], "why": "` + strings.Repeat("y", 257) + `"}`, auth, 400},
		{"a reason of two lines", `{"rule": "bucket", "key": ["a"], "why": "a\nb"}`, auth, 400},
		{"an unknown field", `{"rule": "bucket", "key": ["a"], "why": "x", "for": "1h"}`, auth, 400},
		{"no rule", `{"rule": "none", "key": ["a"], "why": "x"}`, auth, 404},
		{"two values", good + good, auth, 400},
		{"no JSON", `{"rule": `, auth, 400},
		{"an empty list", `[]`, auth, 400},
		{"too much", `{"why": "` + strings.Repeat("x", maxBody) + `"}`, auth, 413},
		{"too much white space", good + strings.Repeat(" ", maxBody), auth, 413},
	} {
		if a := r.send("POST", "/api/v1/forgive", q.body, q.fields...); a.status != q.want {
			t.Errorf("%s: %d, want %d: %s", q.name, a.status, q.want, a.body)
		}
	}
	var got struct{ Events []event }
	r.get("/api/v1/events", &got)
	if len(got.Events) != 2 || got.Events[0].As != "jane" || got.Events[0].By != "jane@example.org" || got.Events[0].Why != "ticket 4711" || got.Events[0].What != "forgive" ||
		!strings.HasPrefix(got.Events[0].On, "bucket key ") || got.Events[1].Status != 404 || got.Events[1].By != "jane" {
		t.Errorf("events %+v", got.Events)
	}
	r.get("/api/v1/events?after=1", &got)
	if len(got.Events) != 1 || got.Events[0].Seq != 2 {
		t.Errorf("events after the first: %+v", got.Events)
	}
	if said := log.String(); strings.Contains(said, "secret-key") || strings.Contains(said, writeSecret) || strings.Count(said, `"msg":"admin write"`) != 2 || !strings.Contains(said, `"why":"ticket 4711"`) {
		t.Errorf("the audit log is\n%s", said)
	}
}

// TestEventsBound: the latest 1,000 events are kept, in their order.
func TestEventsBound(t *testing.T) {
	var a Journal
	for i := range maxEvents + 500 {
		a.add(event{Status: i})
	}
	all := a.since(0)
	if len(all) != maxEvents || all[0].Seq != 501 || all[maxEvents-1].Seq != maxEvents+500 || all[0].Status != 500 {
		t.Errorf("%d events from %d to %d", len(all), all[0].Seq, all[len(all)-1].Seq)
	}
	if n := len(a.since(maxEvents + 490)); n != 10 {
		t.Errorf("%d events after the last but ten", n)
	}
	if n := len(a.since(1 << 60)); n != 0 {
		t.Errorf("%d events after one to come", n)
	}
}

// TestEventsLevel: what the log is too quiet for is kept, but for what is said while
// debugging.
func TestEventsLevel(t *testing.T) {
	var a Journal
	var b bytes.Buffer
	log := a.Logger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn}))).With("store", "redis")
	log.Debug("a detail")
	log.Info("the store is back", "after", []string{"one miss", "another"})
	log.Warn("the disk is full")
	all := a.since(0)
	if len(all) != 2 || all[0].What != "the store is back" || all[1].What != "the disk is full" {
		t.Errorf("kept: %+v", all)
	} else if got := all[0].On; got != "store=redis after=one miss; another" {
		t.Errorf("kept with %q, the items of the list not told apart", got)
	}
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the disk is full") {
		t.Errorf("logged: %s", got)
	}
}

// TestRules: the rules in use, and what each did.
func TestRules(t *testing.T) {
	w := newWorld(t, manyKinds, "customer")
	r := start(t, w.config())
	for range 5 {
		w.send(rules.Request{Path: "/all"})
	}
	var got struct {
		Version string
		Rules   []struct {
			Name   string
			Limits []string
			Counts map[string]int64
		}
	}
	r.get("/api/v1/rules", &got)
	if got.Version != "v1" || len(got.Rules) != 9 {
		t.Fatalf("%+v", got)
	}
	if all := got.Rules[5]; all.Name != "all" || all.Counts["within"] != 3 || all.Counts["over"] != 2 || len(got.Rules[0].Limits) != 2 {
		t.Errorf("%+v", got.Rules)
	}
	var status struct{ Decisions map[string]int64 }
	if r.get("/api/v1/status", &status); status.Decisions["over"] != 2 {
		t.Errorf("%+v", status)
	}
}
