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
	q, err := http.NewRequestWithContext(t.Context(), "POST", r.admin+"/api/v1/whatif", strings.NewReader(`{"rule": {"name": "all", "key": "header:K", "limits": "4/h"}}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	var w recent.WhatIf
	if err != nil || json.Unmarshal(text, &w) != nil || w.Requests != 8 || w.Real.Refused != 4 || w.Before.Refused != 4 || w.After.Refused != 1 || len(w.Warnings) > 0 {
		t.Errorf("%v: %d %s, want 4 of 8 refused, 1 after", err, a.StatusCode, text)
	}
}
