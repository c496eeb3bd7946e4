package throttlehttp

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
)

// live are rules in use.
func live(t *testing.T, text string, known ...string) *rules.Live {
	t.Helper()
	c, err := rules.Parse([]byte(text), known...)
	if err != nil {
		t.Fatal(err)
	}
	l := new(rules.Live)
	l.Swap(c)
	return l
}

// with sets fields of a request: "path", "from", or a header field.
func with(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			switch name, value := pairs[i], pairs[i+1]; name {
			case "path":
				r.URL.Path = value
			case "from":
				r.RemoteAddr = value + ":1234"
			default:
				r.Header.Add(name, value)
			}
		}
	}
}

func TestHandlerRules(t *testing.T) {
	h := &Handler{
		Control: &admit.Control{Store: &book{now: t0}, Rules: live(t, `{"deny": ["203.0.113.0/24"], "allow": ["client=root"], "rules": [
			{"name": "addr", "key": "address", "limits": "2/h"},
			{"name": "plan", "match": {"paths": "/plan"}, "key": "plan", "limits": "1/min", "missing": "refuse"},
			{"name": "size", "match": {"paths": "/size"}, "cost": "size", "limits": "5/min"}
		]}`, "plan", "size")},
		Request: requests(byClient(func(r *http.Request) string { return r.Header.Get("X-User") }), byFill(func(r *http.Request, q rules.Request) rules.Request {
			q.Value = func(name string) (string, bool) { return r.Header.Get("X-Plan"), name == "plan" }
			q.Cost = func(string) int64 { return int64(len(r.Header.Get("X-Size"))) }
			return q
		})),
		Next:    hello,
		Headers: OnlyRetryAfter,
	}
	for i, s := range []struct {
		want string
		is   []string
	}{
		{"200", []string{"from", "192.0.2.1"}},
		{"200", []string{"from", "192.0.2.1"}},
		{"429 | Retry-After: 1800", []string{"from", "192.0.2.1"}},
		{"200", []string{"from", "192.0.2.1", "X-User", "root"}},
		{"403", []string{"from", "203.0.113.9", "X-User", "root"}},
		{"400", []string{"from", "192.0.2.3", "path", "/plan"}},
		{"200", []string{"from", "192.0.2.3", "path", "/plan", "X-Plan", "gold"}},
		{"429 | Retry-After: 60", []string{"from", "192.0.2.3", "path", "/plan", "X-Plan", "gold"}},
		{"200", []string{"from", "192.0.2.4", "path", "/size", "X-Size", "xxx"}},
		{"429 | Retry-After: 12", []string{"from", "192.0.2.5", "path", "/size", "X-Size", "xxx"}},
	} {
		if got := told(ask(h, "GET", with(s.is...))); got != s.want {
			t.Errorf("request %d, %q: %s, want %s", i, s.is, got, s.want)
		}
	}
}

// No rules at all, or none yet, limit no caller.
func TestHandlerWithoutRulesYet(t *testing.T) {
	h := &Handler{
		Control: &admit.Control{Rules: new(rules.Live), OnEvent: func(e admit.Event) {
			if e.Reason() != "unlimited" || e.Answer.Priority != load.Normal {
				t.Errorf("event %+v, want unlimited", e)
			}
		}},
		Next: hello,
	}
	if r := ask(h, "GET"); told(r) != "200" {
		t.Errorf("without rules: %s, want 200", told(r))
	}
}

const twoPolicies = `{"rules": [
	{"name": "burst", "key": "address", "limits": ["10/s", "3/h"]},
	{"name": "seen", "shadow": true, "limits": "100/h"},
	{"name": "all", "limits": "100/h"}
]}`

// With several rules the lists of the draft have several policies, the one that
// decides first; and our own client understands which.
func TestHandlerManyPolicies(t *testing.T) {
	h := &Handler{Control: &admit.Control{Store: &book{now: t0}, Rules: live(t, twoPolicies)}, Next: hello}
	for i, want := range []string{
		`200 | RateLimit: "burst/1";r=2;t=1200, "burst";r=9;t=1, "all";r=99;t=36 | RateLimit-Policy: "burst/1";q=3;w=3600, "burst";q=10;w=1, "all";q=100;w=3600`,
		`200 | RateLimit: "burst/1";r=1;t=2400, "burst";r=8;t=1, "all";r=98;t=72 | RateLimit-Policy: "burst/1";q=3;w=3600, "burst";q=10;w=1, "all";q=100;w=3600`,
		`200 | RateLimit: "burst/1";r=0;t=3600, "burst";r=7;t=1, "all";r=97;t=108 | RateLimit-Policy: "burst/1";q=3;w=3600, "burst";q=10;w=1, "all";q=100;w=3600`,
		`429 | Retry-After: 1200 | RateLimit: "burst/1";r=0;t=1200, "burst";r=7;t=1, "all";r=97;t=108 | RateLimit-Policy: "burst/1";q=3;w=3600, "burst";q=10;w=1, "all";q=100;w=3600`,
	} {
		r := ask(h, "GET")
		if got := told(r); got != want {
			t.Errorf("request %d:\ngot  %s\nwant %s", i, got, want)
		}
		s := readSignal(r)
		if s.Remaining.V != int64(max(2-i, 0)) || s.Limit.V != 3 {
			t.Errorf("request %d is read as %+v, want the hourly limit of 3", i, s)
		}
	}
}

// Of very many policies the first are told, and the one that decides in any case.
func TestHandlerTooManyPolicies(t *testing.T) {
	text := ""
	for i := range 12 {
		text += fmt.Sprintf(`{"name": "rule-%d", "limits": "%d/h"},`, i, 100-i)
	}
	r := ask(&Handler{Control: &admit.Control{Rules: live(t, `{"rules": [`+text[:len(text)-1]+`]}`)}}, "GET")
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		if items := strings.Split(r.Header.Get(name), ", "); len(items) != 8 || !strings.HasPrefix(items[0], `"rule-11";`) || !strings.HasPrefix(items[1], `"rule-0";`) {
			t.Errorf("%s: %q, want 8 policies, of rule-11 first", name, items)
		}
	}
}

// The problem document names the policies that refuse.
func TestHandlerProblems(t *testing.T) {
	counting := new(store.InFlight)
	h := &Handler{
		Control: &admit.Control{Store: &book{now: t0}, InFlight: counting, Rules: live(t, `{"deny": "203.0.113.0/24", "rules": [
		{"name": "mine", "match": {"paths": "/mine"}, "key": "address", "in_flight": 1},
		{"name": "all", "match": {"paths": "/all"}, "in_flight": 1},
		{"name": "rate", "match": {"paths": "/rate"}, "limits": ["1/min", "1/h"]}
	]}`)},
	}
	var inner string
	h.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Again") == "" { // the same again, while this is under way
			a := ask(h, "GET", with("path", r.URL.Path, "X-Again", "yes"))
			text, _ := io.ReadAll(a.Body)
			inner = a.Header.Get("Retry-After") + " " + string(text)
		}
	})
	for _, c := range []struct {
		path, after, typ string
		status           int
		violated         []string
	}{
		{"/mine", "1", "quota-exceeded", 429, []string{"mine"}},
		{"/all", "1", "temporary-reduced-capacity", 503, nil},
		{"/rate", "3600", "quota-exceeded", 429, []string{"rate", "rate/1"}},
	} {
		ask(h, "GET", with("path", c.path))
		var p struct {
			Type     string
			Status   int
			Violated []string `json:"violated-policies"`
		}
		after := inner[:len(c.after)]
		if err := json.Unmarshal([]byte(inner[len(c.after):]), &p); err != nil {
			t.Fatal(err)
		}
		if p.Type != problemTypes+c.typ || p.Status != c.status || !slices.Equal(p.Violated, c.violated) || after != c.after {
			t.Errorf("%s: %s, Retry-After %s; want %d %s %q after %s", c.path, inner, after, c.status, c.typ, c.violated, c.after)
		}
	}
	if st := counting.Stats(); st.Holds != 0 {
		t.Errorf("%+v in the end, want nothing held", st)
	}
}

// What is in flight is released exactly once, whatever happens.
func TestHandlerReleases(t *testing.T) {
	counting := new(store.InFlight)
	h := &Handler{
		Control: &admit.Control{InFlight: counting, Store: &book{now: t0}, Rules: live(t, `{"rules": [
		{"name": "one", "in_flight": 1}, {"name": "seen", "shadow": true, "in_flight": 1}]}`)},
	}
	free := func(what string) {
		t.Helper()
		if st := counting.Stats(); st.Holds != 0 || st.Keys != 0 {
			t.Errorf("after %s: %+v, want nothing held", what, st)
		}
	}
	h.Next = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if st := counting.Stats(); st.Holds != 2 {
			t.Errorf("in Next: %+v, want it held by both rules", st)
		}
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() {
			if e := recover(); e != http.ErrAbortHandler {
				t.Errorf("recovered %v, want the panic of Next", e)
			}
		}()
		ask(h, "GET")
	}()
	free("a panic of Next")

	h.Next = hello
	h.Control.OnEvent = func(admit.Event) { panic("hook") }
	func() {
		defer func() { _ = recover() }()
		ask(h, "GET")
	}()
	free("a panic of On")

	h.Control.OnEvent = nil
	h.Control.Store = store.Func(nil) // calling it panics
	h.Control.Rules = live(t, `{"rules": {"name": "one", "in_flight": 1, "limits": "1/s"}}`)
	func() {
		defer func() { _ = recover() }()
		ask(h, "GET")
	}()
	free("a panic of the Store")
}

// The older dialects.
func TestHandlerDialects(t *testing.T) {
	for _, c := range []struct {
		headers Headers
		names   []string
		want    []string
	}{
		{Triple, []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After"}, []string{"2 1 30 ", "2 0 60 ", "2 0 30 30", "2 0 1 1"}},
		{XTriple, []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}, []string{"2 1 30 ", "2 0 60 ", "2 0 30 30", "2 0 1 1"}},
		{XTripleUnix, []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}, []string{"2 1 1794992430 ", "2 0 1794992460 ", "2 0 1794992430 30", "2 0 1794992430 1"}},
	} {
		store := &book{now: time.Unix(1794992400, 0)}
		h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 2, Period: time.Minute}, Spread: -1}, Headers: c.headers}
		for i, want := range c.want {
			if i == 3 {
				store.now = store.now.Add(29500 * time.Millisecond)
			}
			r := ask(h, "GET")
			got := ""
			for j, name := range c.names {
				if j > 0 {
					got += " "
				}
				got += r.Header.Get(name)
			}
			if got != want || len(r.Header["Ratelimit"]) > 0 {
				t.Errorf("dialect %d, request %d: %v is %q, want %q", c.headers, i, c.names, got, want)
			}
			if s := readSignal(r); s.Remaining.V != int64(max(1-i, 0)) || !s.Reset.OK {
				t.Errorf("dialect %d, request %d is read as %+v", c.headers, i, s)
			}
		}
	}
}

// A Unix time is rounded up, too.
func TestHandlerUnixTimeRoundedUp(t *testing.T) {
	h := &Handler{Control: &admit.Control{Store: &book{now: time.Unix(1794992400, 1e6)}, Limit: limit.Limit{Count: 1, Period: time.Minute}}, Headers: XTripleUnix}
	if got := ask(h, "GET").Header.Get("X-RateLimit-Reset"); got != "1794992461" {
		t.Errorf("X-RateLimit-Reset a minute after 1794992400.001 = %s, want 1794992461", got)
	}
}

// A limit of callers that share a key tells each its fair part.
func TestHandlerShare(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{
		Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 600, Period: time.Minute}},
		Request: requests(byKey(func(r *http.Request) string { return r.Host }), byCaller(func(r *http.Request) string { return r.Header.Get("X-Process") })),
		Next:    hello,
	}
	share := func(host, process string) float64 {
		r := ask(h, "GET", with("X-Process", process), func(r *http.Request) { r.Host = host })
		return readSignal(r).Share.V
	}
	if got := share("a", "1"); math.Abs(got-10) > 0.05 {
		t.Errorf("share of one = %v, want 10/s", got)
	}
	share("a", "2")
	share("a", "3")
	// Two of four may look the same, see limit.Cardinality, and then they count as one.
	if got := share("a", "4"); got < 2.3 || got > 3.4 {
		t.Errorf("share of one in four = %v, want 2.5/s, or 3.3/s if two look the same", got)
	}
	if got := share("b", "1"); math.Abs(got-10) > 0.05 {
		t.Errorf("share under another key = %v, want 10/s", got)
	}
	store.now = t0.Add(2 * time.Minute)
	if got := share("a", "1"); math.Abs(got-10) > 0.05 {
		t.Errorf("share when the others have gone = %v, want 10/s", got)
	}
}

// Rules that are swapped count from then on, and what they tell changes.
func TestHandlerSwap(t *testing.T) {
	l := live(t, `{"rules": {"name": "one", "limits": "1/h"}}`)
	h := &Handler{Control: &admit.Control{Rules: l}, Next: hello, Headers: OnlyRemaining}
	ask(h, "GET")
	if r := ask(h, "GET"); r.StatusCode != 429 {
		t.Fatalf("%s, want 429", told(r))
	}
	c, err := rules.Parse([]byte(`{"rules": {"name": "one", "limits": "10/h"}}`))
	if err != nil {
		t.Fatal(err)
	}
	l.Swap(c)
	if r := ask(h, "GET"); r.StatusCode != 200 {
		t.Errorf("after a swap to 10/h: %s, want 200", told(r))
	}
}

func TestClientIP(t *testing.T) {
	key := ClientIP(rules.Proxies{Trusted: rules.Networks{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, c := range []struct{ from, forwarded, want string }{
		{"192.0.2.1:5", "6.6.6.6", "192.0.2.1"},
		{"10.0.0.1:5", "6.6.6.6, 192.0.2.7", "192.0.2.7"},
		{"10.0.0.1:5", "2001:db8:1:2::3", "2001:db8:1:2::/64"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"@", "6.6.6.6", "@"},
	} {
		r, err := http.NewRequest("GET", "http://api.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = c.from
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := key(r); got != c.want {
			t.Errorf("from %s, forwarded for %q: %s, want %s", c.from, c.forwarded, got, c.want)
		}
	}
}

// readSignal is an answer as our own client reads it.
func readSignal(r *http.Response) signal.Signal {
	return signal.Read(r.StatusCode, fields(r.Header), time.Unix(1794992400, 0))
}

// TestHandlerDecidesByOneVersion: rules that are swapped while a request is
// decided neither trust proxies nor limit it.
func TestHandlerDecidesByOneVersion(t *testing.T) {
	l := live(t, `{"version": "old", "proxies": {"trusted": "192.0.2.1"}, "rules": {"name": "a", "key": "address", "limits": "1/h"}}`)
	next, err := rules.Parse([]byte(`{"version": "new", "rules": {"name": "b", "key": "address", "limits": "1/h"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var seen admit.Event
	h := &Handler{
		Control: &admit.Control{Rules: l, OnEvent: func(e admit.Event) { seen = e }},
		Request: func(_ *http.Request, q admit.Request) admit.Request { l.Swap(next); return q },
	}
	for _, want := range []string{"old a 203.0.113.7", "new b 192.0.2.1"} {
		ask(h, "GET", with("X-Forwarded-For", "203.0.113.7"))
		if got := seen.Answer.Version + " " + seen.Answer.Rule + " " + seen.Request.Address.String(); got != want {
			t.Errorf("decided by %s, want %s", got, want)
		}
	}
}

// TestEventsMayBeKept: what an Event says of its request does not change with
// the next one.
func TestEventsMayBeKept(t *testing.T) {
	var kept []admit.Event
	h := &Handler{Control: &admit.Control{OnEvent: func(e admit.Event) { kept = append(kept, e) }}}
	for i := range 3 {
		ask(h, "GET", with("X-Key", fmt.Sprint(i)))
	}
	for i, e := range kept {
		if got := e.Request.Header("X-Key"); got != fmt.Sprint(i) {
			t.Errorf("event %d has the header of request %s", i, got)
		}
	}
}
