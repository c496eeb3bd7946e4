package page

import (
	"net/http"
	"net/url"
	"time"
)

// top is GET /api/v1/top.
type top struct {
	Since         time.Time
	Total, Missed int64
	Instances     int // that were counted
	Keys          []topKey
}

// topKey is one key of it.
type topKey struct {
	Rule    string
	Key     []string // empty where keys are hidden
	KeyID   string   `json:"key_id"`
	Count   int64
	AtLeast int64 `json:"at_least"`
	AtMost  int64 `json:"at_most"`
	Share   int   // of all, in percent
}

// Link leads to the key.
func (k topKey) Link() string {
	return "/who?" + url.Values{"rule": {k.Rule}, "key": k.Key}.Encode()
}

// Off is how far the true count may be from the count; zero where it is exact.
func (k topKey) Off() int64 { return max(k.AtMost-k.Count, k.Count-k.AtLeast) }

// topKeys are the keys of a rule with the most decisions of a kind, nil if they are
// not counted.
func topKeys(p *Page, r *http.Request, rule, by string) *top {
	var t top
	ask := url.Values{"rule": {rule}, "by": {by}, "n": {"20"}}
	if p.Call(r.Context(), "GET", "/api/v1/top?"+ask.Encode(), nil, &t) != nil {
		return nil
	}
	for i, k := range t.Keys {
		t.Keys[i].Share = int(100 * k.Count / max(t.Total, 1))
	}
	return &t
}

// nearKeys counts, by rule, the keys that come near a limit; nil if they are not
// counted.
func nearKeys(p *Page, r *http.Request) map[string]int {
	var t top
	if p.Call(r.Context(), "GET", "/api/v1/top?by=near&n=1000", nil, &t) != nil {
		return nil
	}
	near := map[string]int{}
	for _, k := range t.Keys {
		near[k.Rule]++
	}
	return near
}
