package throttlehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
)

// book is a Store whose clock stands still until it is set.
type book struct {
	now    time.Time
	states map[string]limit.State
	asked  []string // keys, in order
}

func (b *book) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if b.states == nil {
		b.states = make(map[string]limit.State)
	}
	s := make([]limit.State, len(a))
	for i := range a {
		s[i] = b.states[a[i].Key]
		b.asked = append(b.asked, a[i].Key)
	}
	ok := limit.TakeAll(s, b.now, a, d)
	for i := range a {
		b.states[a[i].Key] = s[i]
	}
	return ok, nil
}

var t0 = time.Date(2026, 11, 6, 9, 0, 0, 0, time.UTC)

// ask sends one request to h and returns its answer.
func ask(h http.Handler, method string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://api.test/", nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// told is the status of an answer and all that it says about the limit.
func told(r *http.Response) string {
	all := []string{fmt.Sprint(r.StatusCode)}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "RateLimit-Remaining"} {
		for _, v := range r.Header.Values(name) {
			all = append(all, name+": "+v)
		}
	}
	return strings.Join(all, " | ")
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// costs are the costs of one request after the other.
func costs(all []int64) func(*http.Request) int64 {
	return func(*http.Request) (n int64) {
		n, all = all[0], all[1:]
		return n
	}
}

type step struct {
	at   time.Duration
	want string
}

var (
	bucket = limit.Limit{Count: 60, Period: time.Minute, Burst: 2}
	window = limit.Limit{Kind: limit.FixedWindow, Count: 2, Period: time.Minute}
)

var handlerTests = []struct {
	name    string
	control func(store.Store) *admit.Control
	headers Headers
	costs   []int64 // if nil, as the handler says
	steps   []step
}{
	{"token bucket", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: bucket} }, Draft, nil, []step{
		{0, `200 | RateLimit: "default";r=1;t=1 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
		{0, `200 | RateLimit: "default";r=0;t=2 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
		{0, `429 | Retry-After: 1 | RateLimit: "default";r=0;t=1 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
		{999 * time.Millisecond, `429 | Retry-After: 1 | RateLimit: "default";r=0;t=1 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
		{time.Second, `200 | RateLimit: "default";r=0;t=2 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
		{time.Hour, `200 | RateLimit: "default";r=1;t=1 | RateLimit-Policy: "default";q=60;w=60;throttle-burst=2`},
	}},
	{"slow bucket", func(s store.Store) *admit.Control {
		return &admit.Control{Store: s, Limit: limit.Limit{Count: 3, Period: time.Hour}, Name: "hourly"}
	}, Draft, nil, []step{
		// a token each 20 min, full again only after an hour
		{0, `200 | RateLimit: "hourly";r=2;t=1200 | RateLimit-Policy: "hourly";q=3;w=3600`},
		{time.Minute, `200 | RateLimit: "hourly";r=1;t=2340 | RateLimit-Policy: "hourly";q=3;w=3600`},
		{2 * time.Minute, `200 | RateLimit: "hourly";r=0;t=3480 | RateLimit-Policy: "hourly";q=3;w=3600`},
		{3 * time.Minute, `429 | Retry-After: 1020 | RateLimit: "hourly";r=0;t=1020 | RateLimit-Policy: "hourly";q=3;w=3600`},
	}},
	{"window", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, Draft, nil, []step{
		{0, `200 | RateLimit: "default";r=1;t=60 | RateLimit-Policy: "default";q=2;w=60`},
		{30 * time.Second, `200 | RateLimit: "default";r=0;t=30 | RateLimit-Policy: "default";q=2;w=60`},
		{30500 * time.Millisecond, `429 | Retry-After: 30 | RateLimit: "default";r=0;t=30 | RateLimit-Policy: "default";q=2;w=60`},
		{time.Minute, `200 | RateLimit: "default";r=1;t=60 | RateLimit-Policy: "default";q=2;w=60`},
	}},
	{"Retry-After alone", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, OnlyRetryAfter, nil, []step{{0, "200"}, {0, "200"}, {0, "429 | Retry-After: 60"}}},
	{"remaining alone", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, OnlyRemaining, nil, []step{
		{0, "200 | RateLimit-Remaining: 1"}, {0, "200 | RateLimit-Remaining: 0"}, {0, "429 | RateLimit-Remaining: 0"},
	}},
	{"silent", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, Silent, nil, []step{{0, "200"}, {0, "200"}, {0, "429"}}},
	{"no limit", func(store.Store) *admit.Control { return nil }, Draft, nil, []step{{0, "200"}, {0, "200"}}},
	{"limit of nothing", func(s store.Store) *admit.Control {
		return &admit.Control{Store: s, Limit: limit.Limit{Period: time.Minute}}
	}, Draft, nil, []step{
		{0, `429 | RateLimit: "default";r=0 | RateLimit-Policy: "default";q=0;w=60`},
	}},
	{"cost", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, Draft, []int64{2, 2}, []step{
		{0, `200 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=2;w=60`},
		{0, `429 | Retry-After: 60 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=2;w=60`},
	}},
	{"cost that can never be paid", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, Draft, []int64{3}, []step{
		{0, `429 | RateLimit: "default";r=2 | RateLimit-Policy: "default";q=2;w=60`},
	}},
	{"negative cost gives nothing back", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, OnlyRemaining, []int64{2, -5, 0, 1}, []step{
		{0, "200 | RateLimit-Remaining: 0"},
		{0, "200 | RateLimit-Remaining: 0"},
		{0, "200 | RateLimit-Remaining: 0"},
		{0, "429 | RateLimit-Remaining: 0"},
	}},
	{"free of charge", func(s store.Store) *admit.Control { return &admit.Control{Store: s, Limit: window} }, Draft, []int64{0}, []step{
		{0, `200 | RateLimit: "default";r=2;t=0 | RateLimit-Policy: "default";q=2;w=60`},
	}},
	{"limit by request", func(s store.Store) *admit.Control {
		return &admit.Control{Store: s, Limit: bucket, LimitFor: func(admit.Request) limit.Limit { return window }}
	}, Draft, nil, []step{
		{0, `200 | RateLimit: "default";r=1;t=60 | RateLimit-Policy: "default";q=2;w=60`},
	}},
	{"huge bucket", func(s store.Store) *admit.Control {
		return &admit.Control{Store: s, Limit: limit.Limit{Count: 1 << 50, Period: time.Second}}
	}, Draft, nil, []step{
		{0, `200 | RateLimit: "default";r=999999999999999;t=1 | RateLimit-Policy: "default";q=999999999999999;w=1`},
	}},
}

func TestHandler(t *testing.T) {
	for i := range handlerTests {
		tt := &handlerTests[i]
		store := new(book)
		h := Handler{Control: tt.control(store), Headers: tt.headers, Next: hello}
		if tt.costs != nil {
			h.Request = requests(byCost(costs(tt.costs)))
		}
		for j, s := range tt.steps {
			store.now = t0.Add(s.at)
			if got := told(ask(&h, "GET")); got != s.want {
				t.Errorf("%s, request %d at %v:\ngot  %s\nwant %s", tt.name, j, s.at, got, s.want)
			}
		}
	}
}

// What the Handler writes is read by an independent reader: a regular
// expression for the grammar in the draft, and our own client.
func TestHandlerIsUnderstood(t *testing.T) {
	item := regexp.MustCompile(`^"(?:[^"\\]|\\["\\])*"((?:;[a-z]+=[0-9]{1,15})+)$`)
	h := &Handler{Control: &admit.Control{Store: &book{now: t0}, Limit: limit.Limit{Count: 3, Period: 90 * time.Second}, Spread: -1, Name: `a "b" \c`}}
	for i := range 5 {
		r := ask(h, "GET")
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			if v := r.Header.Get(name); !item.MatchString(v) {
				t.Errorf("request %d: %s: %s does not match %s", i, name, v, item)
			}
		}
		s := signal.Read(r.StatusCode, fields(r.Header), t0)
		want := signal.Signal{
			Verdict: pace.Served, Limit: pace.Some[int64](3), Window: pace.Some(90 * time.Second),
			Remaining: pace.Some(max(2-int64(i), 0)), Reset: pace.Some(time.Duration(i+1) * 30 * time.Second),
		}
		if i >= 3 {
			want.Verdict, want.After, want.Reset = pace.Throttled, pace.Some(30*time.Second), pace.Some(30*time.Second)
		}
		if s != want {
			t.Errorf("request %d is read as %+v; want %+v", i, s, want)
		}
	}
}

func TestHandlerProblem(t *testing.T) {
	h := &Handler{Control: &admit.Control{Limit: limit.Limit{Period: time.Minute}, Name: `a "b"`}, Next: hello}
	r := ask(h, "GET")
	if got, want := r.Header.Get("Content-Type"), "application/problem+json"; got != want {
		t.Errorf("Content-Type = %q; want %q", got, want)
	}
	var p struct {
		Type     string
		Title    string
		Status   int
		Violated []string `json:"violated-policies"`
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p.Title == "" || p.Status != 429 || !slices.Equal(p.Violated, []string{`a "b"`}) {
		t.Errorf("problem = %+v; want quota-exceeded, a title, 429, the policy's name", p)
	}
	head := ask(h, "HEAD")
	if body, _ := io.ReadAll(head.Body); head.StatusCode != 429 || len(body) > 0 {
		t.Errorf("HEAD = %d with a body of %d bytes; want 429 with none", head.StatusCode, len(body))
	}
}

func TestHandlerKeys(t *testing.T) {
	from := func(addr string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = addr
			r.Header.Set("X-Forwarded-For", "6.6.6.6")
			r.Header.Set("X-Real-IP", "6.6.6.6")
		}
	}
	store := &book{now: t0}
	one := limit.Limit{Count: 1, Period: time.Minute}
	common := &Handler{Control: &admit.Control{Store: store, Limit: one}, Request: requests(byKey(func(*http.Request) string { return "all" })), Next: hello}
	byIP := &Handler{Control: &admit.Control{Store: store, Limit: one, Name: "ip"}, Next: hello}
	tests := []struct {
		h    *Handler
		addr string
		key  string
		want int
	}{
		{common, "192.0.2.1:1", "default/all", 200},
		{common, "192.0.2.2:1", "default/all", 429},
		{byIP, "192.0.2.1:1", "ip/192.0.2.1", 200},
		{byIP, "192.0.2.1:2", "ip/192.0.2.1", 429},
		{byIP, "[::ffff:192.0.2.1]:2", "ip/192.0.2.1", 429},
		{byIP, "192.0.2.2:1", "ip/192.0.2.2", 200},
		{byIP, "[2001:db8:1:2::3]:1", "ip/2001:db8:1:2::/64", 200},
		{byIP, "[2001:db8:1:2:ffff::4]:9", "ip/2001:db8:1:2::/64", 429},
		{byIP, "[2001:db8:1:3::3]:1", "ip/2001:db8:1:3::/64", 200},
		{byIP, "[fe80::1%eth0]:1", "ip/fe80::1", 200},
		{byIP, "@", "ip/", 200},
	}
	for _, tt := range tests {
		store.asked = nil
		got := ask(tt.h, "GET", from(tt.addr)).StatusCode
		if got != tt.want || len(store.asked) != 1 || store.asked[0] != tt.key {
			t.Errorf("request from %s: %d under the keys %q; want %d under %q", tt.addr, got, store.asked, tt.want, tt.key)
		}
	}
}

func TestHandlerError(t *testing.T) {
	lost := errors.New("connection to the database 10.1.2.3 lost")
	broken := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	called := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ })
	one := limit.Limit{Count: 1, Period: time.Minute}

	r := ask(&Handler{Control: &admit.Control{Store: broken, Limit: one}, Next: next}, "GET")
	body, _ := io.ReadAll(r.Body)
	if told(r) != "503" || called != 0 || strings.Contains(string(body), "10.1.2.3") {
		t.Errorf("with a broken Store: %s, Next called %d times, body %q; want 503, no call, no cause", told(r), called, body)
	}
	r = ask(&Handler{Control: &admit.Control{Store: store.FailOpen(broken), Limit: one}, Next: next}, "GET")
	if r.StatusCode != 200 || called != 1 {
		t.Errorf("with FailOpen: %s, Next called %d times; want 200, one call", told(r), called)
	}
	var got error
	r = ask(&Handler{
		Control: &admit.Control{Store: broken, Limit: one},
		Next:    next,
		Error: func(w http.ResponseWriter, _ *http.Request, err error) {
			got = err
			w.WriteHeader(http.StatusTeapot)
		},
	}, "GET")
	if r.StatusCode != http.StatusTeapot || got != lost || called != 1 {
		t.Errorf("with Error: %d, error %v, Next called %d times; want 418, %v, no further call", r.StatusCode, got, called, lost)
	}
}

func TestHandlerZero(t *testing.T) {
	if r := ask(new(Handler), "GET"); told(r) != "204" {
		t.Errorf("the zero Handler answers %s; want 204", told(r))
	}
	h := &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}} // a Store of its own
	if a, b := ask(h, "GET").StatusCode, ask(h, "GET").StatusCode; a != 204 || b != 429 {
		t.Errorf("a Handler with a Limit alone answers %d, %d; want 204, 429", a, b)
	}
}

// TestRefusalForEver: a request that costs more than the limit ever allows is
// told so, and our own Transport does not retry it.
func TestRefusalForEver(t *testing.T) {
	h := &Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 5, Period: time.Second}},
		Request: requests(byCost(func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
			return n
		})),
	}
	for cost, want := range map[string]bool{"6": true, "5": false} {
		get := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/?cost="+cost, nil))
			return w
		}
		get()
		w := get()
		if got := strings.Contains(w.Body.String(), `"retryable":false`); got != want || w.Code != 429 {
			t.Errorf("cost %s of 5: %d %s; want retryable false: %t", cost, w.Code, w.Body, want)
		}
	}
}
