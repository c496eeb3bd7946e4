package admin

import (
	"context"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// TestFor: a change lasts for at least the time that was asked for, and less than a
// second more; what is no such time is said in one line.
func TestFor(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 700_000_000, time.UTC)
	for _, c := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{text: "1ms", want: time.Millisecond},
		{text: "3s", want: 3 * time.Second},
		{text: "1h30m", want: 90 * time.Minute},
		{text: "1h 30m", want: 90 * time.Minute},
		{text: "7d", want: 7 * 24 * time.Hour},
		{text: "1d12h", want: 36 * time.Hour},
		{text: "2 d 1 h", want: 49 * time.Hour},
		{text: "366d", want: 366 * 24 * time.Hour},
		{text: " 1 h  30 m ", want: 90 * time.Minute},
		{text: "1 30m", err: `for: "1 30m" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1 0d", err: `for: "1 0d" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1d 2  0h", err: `for: "1d 2  0h" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1. 5h", err: `for: "1. 5h" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1 .5h", err: `for: "1 .5h" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1m s", err: `for: "1m s" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "soon", err: `for: "soon" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "10", err: `for: "10" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "0s", err: `for: "0s" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "-5m", err: `for: "-5m" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "-1d", err: `for: "-1d" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1d-1h", err: `for: "1d-1h" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "1d1d", err: `for: "1d1d" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "99999d", err: `for: "99999d" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "2562048h", err: `for: "2562048h" must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d`},
		{text: "367d", err: `for: "367d" must be at most 366d; write lasting changes into the rules`},
		{text: "10000h", err: `for: "10000h" must be at most 366d; write lasting changes into the rules`},
	} {
		until, err := (&lasting{For: c.text}).ends(now)
		switch left := until.Sub(now); {
		case text(err) != c.err:
			t.Errorf("%q: %q, want %q", c.text, text(err), c.err)
		case err == nil && (left < c.want || left >= c.want+time.Second || until.Nanosecond() != 0):
			t.Errorf("%q: until %v, which is in %v", c.text, until, left)
		}
	}
}

// TestUntil: a change lasts until the time that was asked for, and less than a second more;
// one whose end is near does not end at once, and remove another.
func TestUntil(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 700_000_000, time.UTC)
	for _, want := range []time.Duration{time.Nanosecond, 200 * time.Millisecond, 300 * time.Millisecond, time.Second, time.Hour, 366 * 24 * time.Hour} {
		until, err := (&lasting{Until: instant{now.Add(want)}}).ends(now)
		if left := until.Sub(now); err != nil || left < want || left >= want+time.Second || until.Nanosecond() != 0 {
			t.Errorf("until %v, in %v: ends in %v, %v", now.Add(want), want, left, err)
		}
	}
}

// TestRaiseUnfit: a raise that fits no key is a mistake of its request, not of the store.
func TestRaiseUnfit(t *testing.T) {
	a := instances(t, 1)[0]
	got := a.write("PUT", "/api/v1/raise", because("rule", "per-client", "key", []string{""}, "limits", []string{"6/h"}, "for", "1h"))
	if got.status != 400 || !strings.Contains(got.body, "each part needs a value") || strings.Contains(got.body, "not known") {
		t.Errorf("got %d %s, want 400, that each part needs a value", got.status, got.body)
	}
}

// TestRaiseMeets: a key that no request can have is not raised, as nothing would come of it;
// one that is written as requests have it is.
func TestRaiseMeets(t *testing.T) {
	x := instances(t, 1)[0]
	x.text = `{"rules": [{"name": "host", "key": "host", "limits": "2/h"}, {"name": "path", "key": "path", "limits": "2/h"},
		{"name": "two", "key": "client+path:2", "in_flight": 2}, {"name": "net", "key": "address", "limits": "2/h"}]}`
	x.must("POST", "/api/v1/reload", because())
	for _, c := range []struct {
		rule    string
		key     []string
		pattern bool
		want    string
	}{
		{rule: "host", key: []string{"api.example.org"}},
		{rule: "host", key: []string{"API.example.org"}},
		{rule: "host", key: []string{"api.example.org:8443"}, want: "must be a host without scheme, port and final dot"},
		{rule: "host", key: []string{"api.example.org."}, want: "must be a host without scheme, port and final dot"},
		{rule: "host", key: []string{"*.example.org"}, pattern: true},
		{rule: "path", key: []string{"/a/b"}},
		{rule: "path", key: []string{"a"}, want: "must begin with '/' or '*'"},
		{rule: "path", key: []string{"/a//b"}, want: "paths are compared without"},
		{rule: "path", key: []string{"/a/../b"}, want: "each part needs a value"},
		{rule: "two", key: []string{"acme", "a b"}},
		{rule: "two", key: []string{"acme", ".."}, want: "each part needs a value"},
		{rule: "net", key: []string{"192.0.2.1"}},
		{rule: "net", key: []string{"192.0.2.0/24"}},
		{rule: "net", key: []string{"home"}, want: "must be an address or its network"},
	} {
		got := x.write("PUT", "/api/v1/raise", because("rule", c.rule, "key", c.key, "pattern", c.pattern, "in_flight", 9, "for", "1h"))
		if got.status == 200 != (c.want == "") || !strings.Contains(got.body, c.want) || got.status > 400 {
			t.Errorf("%s %q: %d %s, want %q", c.rule, c.key, got.status, got.body, c.want)
		}
	}
}

// TestMultiplied: a limit that is raised is as many times what it was, and no lower than
// before, however large it is.
func TestMultiplied(t *testing.T) {
	for _, c := range []struct {
		count int64
		times float64
		want  int64
	}{{10, 2.5, 25}, {100, 2.3, 230}, {100, 1.15, 115}, {1000, 0.29, 290}, {1, 0.1, 1}, {9e15, 1000, 9e18}, {9e18, 1000, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64}} {
		got := multiplied(limit.Limit{Count: c.count, Period: time.Hour, Burst: c.count}, c.times)
		if got.Count != c.want || got.Burst != c.want {
			t.Errorf("%v times %d: %d, burst %d, want %d", c.times, c.count, got.Count, got.Burst, c.want)
		}
	}
}

// TestEndedHasNoEnd: what ends a change does not answer that it lasts until some time.
func TestEndedHasNoEnd(t *testing.T) {
	a := instances(t, 1)[0]
	for path, of := range map[string][]any{
		"/api/v1/raise":      {"rule", "per-client", "key", []string{"acme"}, "limits", []string{"6/h"}, "for", "1h"},
		"/api/v1/block":      {"entry", "client=mallory", "for", "1h"},
		"/api/v1/exempt":     {"entry", "client=probe", "for", "1h"},
		"/api/v1/switches/s": {"key", "*", "value", "on", "for", "1h"},
	} {
		if got := a.write("PUT", path, because(of...)); got.status != 200 || !strings.Contains(got.body, "until") {
			t.Errorf("PUT %s: %s, want until when", path, got.body)
		}
		if got := a.write("DELETE", path, because(of...)); got.status != 200 || strings.Contains(got.body, "until") {
			t.Errorf("DELETE %s: %s, want no until", path, got.body)
		}
	}
}

// TestReloadAlone: a reload whose caller goes is carried out all the same.
func TestReloadAlone(t *testing.T) {
	s := &server{c: Config{Rules: new(rules.Live), Reload: context.Context.Err}, audit: audit{Journal: new(Journal)}}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/reload", strings.NewReader(`{"why": "new rules"}`))
	r.Header.Set("Content-Type", "application/json")
	if err := s.reload(httptest.NewRecorder(), r); err != nil {
		t.Errorf("reload: %v", err)
	}
}
