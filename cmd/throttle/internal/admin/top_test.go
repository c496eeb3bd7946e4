package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/recent"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

// deciding is an admin role beside a Control that has decided about a few clients.
func deciding(t *testing.T, show bool) *running {
	t.Helper()
	live := new(rules.Live)
	version, err := rules.Parse([]byte(`{"version": "v1", "rules": [{"name": "client", "key": "client", "limits": "5/h"}, {"name": "all", "limits": "100/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	live.Swap(version)
	r := &recent.Decisions{Show: true} // it is the API that hides them
	r.Prepare(live)
	store := new(memory.Store)
	control := admit.Control{Store: store, Rules: live, OnEvent: func(e admit.Event) { r.OnEvent(&e) }}
	for i, n := range []int{12, 7, 3} {
		for range n {
			a, err := control.Begin(t.Context(), admit.Request{Request: rules.Request{Path: "/", Client: fmt.Sprintf("c/%d", i)}, Version: live.Load()})
			if err != nil {
				t.Fatal(err)
			}
			a.Done()
		}
	}
	return start(t, Config{Tokens: tokens, Rules: live, Recent: r, ShowKeys: show, Store: store})
}

func TestTop(t *testing.T) {
	for _, show := range []bool{false, true} {
		r := deciding(t, show)
		var is topState
		r.get("/api/v1/top?by=refused&rule=client&n=1", &is)
		if is.By != "refused" || is.Rule != "client" || is.Total != 9 || is.Missed != 2 || is.Sampled != 1 || len(is.Keys) != 1 || is.Since.After(is.At) {
			t.Fatalf("top: %+v, want one key, others with 2 at most, 9 in all", is)
		}
		k := is.Keys[0]
		if k.Rule != "client" || k.KeyID != keyID("client/0/client=c%2F0") || k.Count != 7 || k.AtLeast != 7 || k.AtMost != 7 {
			t.Errorf("key %+v, want that of c/0, 7 times", k)
		}
		if got, want := strings.Join(k.Key, " "), map[bool]string{true: "c/0"}[show]; got != want {
			t.Errorf("ShowKeys %t: key %q, want %q", show, got, want)
		}
		r.get("/api/v1/top", &is)
		if len(is.Keys) != 4 || is.Keys[0].Rule != "all" || is.Keys[0].Count != 22 {
			t.Errorf("top of all: %+v, want four keys, first that of rule all", is.Keys)
		}
	}
}

// TestWhatIfWaits: while as many run as may, the rules are not even read for another.
func TestWhatIfWaits(t *testing.T) {
	live := new(rules.Live)
	version, err := rules.Parse([]byte(`{"rules": []}`))
	if err != nil {
		t.Fatal(err)
	}
	live.Swap(version)
	s := &server{c: Config{Rules: live, Recent: new(recent.Decisions)}, trials: make(chan struct{})} // room for none
	ctx, end := context.WithCancel(t.Context())
	end()
	q := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/whatif", strings.NewReader(`{"remove": "none"}`))
	q.Header.Set("Content-Type", "application/json")
	var p *problem
	if err := s.whatIf(httptest.NewRecorder(), q); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable {
		t.Errorf("%v, want 503, that others are running", err)
	}
}

func TestTopBadInput(t *testing.T) {
	r := deciding(t, false)
	for query, want := range map[string]string{
		"by=most": "by \\\"most\\\": must be all, refused or near", "n=0": "must be a number from 1 to 1000", "n=x": "must be a number",
	} {
		if a := r.send("GET", "/api/v1/top?"+query, "", "Authorization", "Bearer "+readSecret); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400: %s", query, a.status, a.body, want)
		}
	}
	if a := start(t, Config{}).send("GET", "/api/v1/top", ""); a.status != http.StatusNotFound {
		t.Errorf("without decisions: %d %s, want 404", a.status, a.body)
	}
}

func TestWhatIf(t *testing.T) {
	r := deciding(t, false)
	for _, c := range []struct {
		body                  string
		refused, newlyAllowed int64
	}{
		{`{"rule": {"name": "client", "key": "client", "limits": "10/h"}}`, 2, 7},
		{`{"rule": {"name": "more", "limits": "2/h"}}`, 20, 0},
		{`{"remove": "client"}`, 0, 9},
		{`{"rules": {"rules": [{"name": "all", "limits": "4/h"}]}}`, 18, 0},
	} {
		a := r.send("POST", "/api/v1/whatif", c.body, "Authorization", "Bearer "+readSecret)
		var is recent.WhatIf
		if a.status != 200 {
			t.Fatalf("%s: %d %s", c.body, a.status, a.body)
		}
		decode(t, a.body, &is)
		if is.Requests != 22 || is.Real.Refused != 9 || is.Before.Refused != 9 || is.After.Refused != c.refused || c.newlyAllowed > 0 && is.After.NewlyAdmitted != c.newlyAllowed {
			t.Errorf("%s: %s, want 9 of 22 refused before, %d after, %d newly admitted", c.body, a.body, c.refused, c.newlyAllowed)
		}
	}
	for body, want := range map[string]string{
		`{}`:                                  "write one of",
		`{"remove": "x", "rule": {}}`:         "write one of",
		`{"remove": "x"}`:                     "there is none of that name",
		`{"rule": {"name": "x", "limit": 1}}`: "limit",
		`{"rules": {"rules": [{"name": "all", "limits": "4/fortnight"}]}}`: "fortnight",
		`{"rules": {"ipv6_prefix": 48, "rules": []}}`:                      "cannot be tried",
	} {
		a := r.send("POST", "/api/v1/whatif", body, "Authorization", "Bearer "+readSecret)
		if a.status != 400 && a.status != 404 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want a refusal: %s", body, a.status, a.body, want)
		}
	}
	if a := r.send("POST", "/api/v1/whatif", `{"remove": "client"}`, "Authorization", "Bearer "+readSecret, "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
		t.Errorf("from a page of another origin: %d, want 403", a.status)
	}
}
