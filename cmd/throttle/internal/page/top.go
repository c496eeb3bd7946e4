package page

import (
	"net/http"
	"net/url"
)

// top is GET /api/v1/top.
type top struct{ Keys []topKey }

type topKey struct {
	Rule  string
	Key   []string
	KeyID string `json:"key_id"`
	Count int64
	Error int64
}

// topKeys are the keys of a rule with the most decisions of a kind, nil if they are
// not counted.
func topKeys(p *Page, r *http.Request, rule, by string) *top {
	var t top
	ask := url.Values{"rule": {rule}, "by": {by}, "n": {"20"}}
	if p.Call(r.Context(), "GET", "/api/v1/top?"+ask.Encode(), nil, &t) != nil {
		return nil
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
