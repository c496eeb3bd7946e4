package dryrun

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

const set = `{"deny": "header:K=bad", "allow": "header:K=good", "rules": [
	{"name": "a", "key": "header:K", "limits": ["3/s", "20/m fixed-window"], "overrides": [{"key": "2", "limits": "9/s"}, {"key": "3", "limits": "0/s"}]},
	{"name": "b", "match": {"methods": ["POST", "PUT"], "paths": "/p/*", "headers": {"H": "x*"}}, "key": "header:K", "missing": "refuse", "limits": "4/s", "cost": 2},
	{"name": "c", "match": {"client": "known", "hosts": "h"}, "limits": "5/s"},
	{"name": "d", "shadow": true, "limits": "1/s"},
	{"name": "e", "key": "header:K", "missing": "pass", "limits": "5/s", "shadow": {"limits": "1/s"}},
	{"name": "f", "off": true, "limits": "0/s"}
]}`

func compiled(t *testing.T) *rules.Compiled {
	t.Helper()
	c, err := rules.Parse([]byte(set))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pick(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

func request(r *rand.Rand) rules.Request {
	header := map[string]string{"K": pick(r, "1", "2", "3", "", "bad", "good"), "H": pick(r, "x1", "y", "")}
	return rules.Request{
		Method: pick(r, "GET", "POST"), Path: pick(r, "/", "/p/1"), Host: pick(r, "h", "i"), Client: pick(r, "", "jane"),
		Header: func(name string) string { return header[name] },
	}
}

// A report says of each request what Decide then decides; asking charges nothing,
// and each rule alone says what all rules say together.
func TestReportIsTheDecision(t *testing.T) {
	c := compiled(t)
	bubble.Test(t, func(t *testing.T) {
		s := new(memory.Store)
		random := rand.New(rand.NewPCG(1, 2))
		reasons := map[string]int{}
		for i := range 1000 {
			q := request(random)
			first, err := Of(t.Context(), c, nil, s, i%2 == 0, q)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Of(t.Context(), c, nil, s, i%2 == 0, q)
			if err != nil || fmt.Sprint(*first) != fmt.Sprint(*again) {
				t.Fatalf("asked twice: %+v, then %+v, %v", first, again, err)
			}
			a, err := c.Decide(t.Context(), s, q)
			if err != nil {
				t.Fatal(err)
			}
			if first.OK != a.OK || first.Reason != a.Reason.String() || first.Rule != a.Rule {
				t.Fatalf("request %d: report %+v, but decided %+v", i, first, a)
			}
			check(t, first)
			reasons[first.Reason]++
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		for _, reason := range []string{"within", "over", "denied", "allowed", "no-key"} {
			if reasons[reason] < 5 {
				t.Errorf("%d requests were %s, want some of each: %v", reasons[reason], reason, reasons)
			}
		}
	})
}

// check compares what is said of each rule with the whole.
func check(t *testing.T, r *Report) {
	t.Helper()
	refuses := false
	for _, one := range r.Rules {
		refuses = refuses || one.Applies && !one.OK && !one.Shadow
		if one.Applies == (one.Why != "") && one.OK && len(one.Limits) > 0 {
			t.Fatalf("%+v: applies or says why not, one of both", one)
		}
		for _, l := range one.Limits {
			if l.OK && l.Left < 0 || l.OK == (l.Wait > 0) {
				t.Fatalf("%+v: %+v", one, l)
			}
		}
	}
	if (r.Reason == "within" || r.Reason == "over" || r.Reason == "no-key") && refuses == r.OK {
		t.Fatalf("a rule refuses: %t, but %+v", refuses, r)
	}
	if (r.Way == "") != r.OK {
		t.Fatalf("way %q of %+v", r.Way, r)
	}
}

// A wait is right: not a microsecond before, but then.
func TestWait(t *testing.T) {
	c := compiled(t)
	bubble.Test(t, func(t *testing.T) {
		s := new(memory.Store)
		q := rules.Request{Method: "GET", Path: "/", Header: func(name string) string { return map[string]string{"K": "1"}[name] }}
		for range 3 {
			if _, err := c.Decide(t.Context(), s, q); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Of(t.Context(), c, nil, s, true, q)
		if err != nil || r.OK {
			t.Fatalf("%+v, %v; want a refusal", r, err)
		}
		wait := r.Rules[0].Limits[0].Wait
		time.Sleep(wait - time.Microsecond)
		if r, err = Of(t.Context(), c, nil, s, true, q); err != nil || r.OK {
			t.Errorf("a microsecond before: %+v, %v", r, err)
		}
		time.Sleep(time.Microsecond)
		if r, err = Of(t.Context(), c, nil, s, true, q); err != nil || !r.OK {
			t.Errorf("after the wait of %v: %+v, %v", wait, r, err)
		}
	})
}

// The text of a wait is rounded up to a millisecond, with a unit that people read.
func TestWaitText(t *testing.T) {
	for _, c := range []struct {
		d     limit.Decision
		exact bool
		want  string
	}{
		{limit.Decision{OK: true, RetryAfter: time.Second}, true, ""},
		{limit.Decision{RetryAfter: limit.Never}, true, "never"},
		{limit.Decision{RetryAfter: 1702796 * time.Microsecond}, true, "1.703 s"},
		{limit.Decision{RetryAfter: 1702796 * time.Microsecond}, false, "at most 1.703 s"},
	} {
		if got := waitText(c.d, c.exact); got != c.want {
			t.Errorf("%+v, exact %t: %q, want %q", c.d, c.exact, got, c.want)
		}
	}
}
