//go:build unix

package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/recent"
)

// TestRecent: the API has the keys that real traffic is refused for, without their
// names, and what another limit would have done about it.
func TestRecent(t *testing.T) {
	r := start(t, folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour), "f.yaml")
	r.statuses(5, "/a/x", "K", "secret-1")
	r.statuses(3, "/a/y", "K", "secret-2")
	_, body := get(t, r.admin+"/api/v1/top?by=refused", "Authorization", "Bearer "+token)
	var top struct {
		Total int
		Keys  []struct {
			Rule  string
			Count int
		}
	}
	if err := json.Unmarshal([]byte(body), &top); err != nil || top.Total != 4 || len(top.Keys) != 2 || top.Keys[0].Rule != "all" || top.Keys[0].Count != 3 || strings.Contains(body, "secret") {
		t.Errorf("%v: %s, want two keys of rule all, with 3 and 1 refusals", err, body)
	}
	w, text := r.whatIf(`{"rule": {"name": "all", "key": "header:K", "limits": "4/h"}}`)
	if w.Requests != 8 || w.Real.Refused != 4 || w.Before.Refused != 4 || w.After.Refused != 1 || len(w.Warnings) > 0 {
		t.Errorf("%s, want 4 of 8 refused, 1 after", text)
	}
	r.write("rules.yaml", strings.Replace(twoAnHour, "header:K", "header:L", 1))
	r.reload()
	r.statuses(2, "/a/x", "K", "secret-1", "L", "secret-3")
	if w, text = r.whatIf(`{"rule": {"name": "all", "key": "header:L", "limits": "1/h", "missing": "pass"}}`); w.Requests != 10 || w.Incomplete != 8 || w.After.Refused != 1 {
		t.Errorf("%s, want 10 requests, the first 8 without the field of the new rules, and 1 refused after", text)
	}
}

// whatIf asks what other rules would have done.
func (r *running) whatIf(body string) (w recent.WhatIf, text string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), "POST", r.admin+"/api/v1/whatif", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil || json.Unmarshal(all, &w) != nil {
		r.t.Fatalf("%v: %d %s", err, a.StatusCode, all)
	}
	return w, string(all)
}
