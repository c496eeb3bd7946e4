package throttlehttp

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
)

// asked is a request that is refused after so long, and what it should be told.
type asked struct {
	at   time.Duration
	from func(*http.Request)
	want string
}

// from makes a request one of that address and version of HTTP.
func from(address string, major int, fields ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr, r.ProtoMajor = address, major
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
	}
}

// A caller that asks too early is told the time it was told before, whether it
// keeps its connection or not; others get times of their own.
func TestLoneCallerIsToldOneTime(t *testing.T) {
	a, b := from("192.0.2.1:1", 1), from("192.0.2.1:2", 1)
	h2 := from("192.0.2.1:1", 2)
	ms := time.Millisecond
	tests := []struct {
		name   string
		caller func(*http.Request) string
		asked  []asked
	}{
		{"one connection", nil, []asked{{1000 * ms, a, "29"}, {2000 * ms, a, "28"}, {2001 * ms, a, "28"}, {3500 * ms, a, "27"}, {29 * time.Second, a, "1"}}},
		{"a connection each time", nil, []asked{{1000 * ms, a, "29"}, {2000 * ms, b, "28"}, {5000 * ms, a, "25"}}},
		{"many at once", nil, []asked{{1000 * ms, a, "29"}, {1001 * ms, b, "59"}, {1002 * ms, a, "29"}, {1003 * ms, b, "59"}}},
		{"many on one connection", nil, []asked{{1000 * ms, h2, "29"}, {1001 * ms, h2, "59"}}},
		{"one by HTTP/2", nil, []asked{{1000 * ms, h2, "29"}, {2000 * ms, h2, "28"}}},
		{"two behind a proxy", nil, []asked{
			{1000 * ms, from("192.0.2.9:1", 1, "X-Forwarded-For", "203.0.113.1"), "29"},
			{3000 * ms, from("192.0.2.9:1", 1, "X-Forwarded-For", "203.0.113.2"), "57"},
			{4000 * ms, from("192.0.2.9:1", 1, "X-Forwarded-For", "203.0.113.1"), "26"},
		}},
		{"two of a name", func(r *http.Request) string { return r.Header.Get("X-Process") }, []asked{
			{1000 * ms, from("192.0.2.1:1", 2, "X-Process", "1"), "29"},
			{3000 * ms, from("192.0.2.2:2", 2, "X-Process", "1"), "27"},
			{4000 * ms, from("192.0.2.2:2", 2, "X-Process", "2"), "56"},
		}},
	}
	for _, tt := range tests {
		store := &book{now: t0}
		h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 1, Period: 30 * time.Second}}, Request: requests(byKey(func(*http.Request) string { return "all" }), byCaller(tt.caller))}
		ask(h, "GET")
		for _, c := range tt.asked {
			store.now = t0.Add(c.at)
			if got := ask(h, "GET", c.from).Header.Get("Retry-After"); got != c.want {
				t.Errorf("%s: after %v Retry-After %s, want %s", tt.name, c.at, got, c.want)
			}
		}
	}
}

// One caller in a loop is never told to come later than it was told first,
// whatever the limit.
func TestLoopIsNotToldLater(t *testing.T) {
	for _, l := range []limit.Limit{
		{Count: 1, Period: time.Second},
		{Count: 2, Period: time.Minute, Burst: 1},
		{Count: 10, Period: time.Second, Burst: 1},
		{Kind: limit.FixedWindow, Count: 1, Period: time.Minute},
	} {
		store := &book{now: t0}
		h := &Handler{Control: &admit.Control{Store: store, Limit: l}}
		var come time.Time // as it was told
		for i := range 1000 {
			store.now = t0.Add(time.Duration(i) * 7 * time.Millisecond)
			r := ask(h, "GET")
			if r.StatusCode != 429 {
				come = time.Time{}
				continue
			}
			back := store.now.Add(toldWait(t, r, false))
			if come.After(store.now) && back.After(come.Add(time.Second)) {
				t.Fatalf("%v: in a loop, after %v: told to come at %v, before that at %v", l, store.now.Sub(t0), back.Sub(t0), come.Sub(t0))
			}
			come = back
		}
	}
}

// Callers that read milliseconds get them by default, where they are sooner.
func TestMillisecondsAreTold(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 5, Period: time.Second, Burst: 1}}}
	next, got := another(), ""
	ask(h, "GET")
	for range 3 {
		r := ask(h, "GET", next)
		got += fmt.Sprintf("%s %s, ", r.Header.Get("Retry-After"), r.Header.Get("Retry-After-Ms"))
	}
	if want := "1 200, 2 400, 3 600, "; got != want {
		t.Errorf("Retry-After and Retry-After-Ms: %s want %s", got, want)
	}
	h = &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Minute}, Store: &book{now: t0}}}
	ask(h, "GET")
	if r := ask(h, "GET"); r.Header.Get("Retry-After") != "60" || r.Header.Get("Retry-After-Ms") != "" {
		t.Errorf("%s, Retry-After-Ms %q; want 60 and none", told(r), r.Header.Get("Retry-After-Ms"))
	}
}
