package page

import (
	"net/http"
	"time"
)

// quotasBody is GET /api/v1/quota.
type quotasBody struct {
	Streams, Buckets, All int
	Limits                []quota
}

// quota is a limit that Envoys share.
type quota struct {
	Rule                              string
	Key                               []string // empty where keys are hidden
	KeyID                             string   `json:"key_id"`
	Limit                             string
	Supply, Assigned, Allowed, Denied float64
	Away                              bool
	Buckets                           int
	Envoys                            []quotaShare
}

// quotaShare is what one Envoy has of it.
type quotaShare struct {
	Envoy                 string // empty: its stream has ended
	Rate, Allowed, Denied float64
	Burst                 int64
	Until                 time.Time
}

// More is the number of buckets that are not listed.
func (q *quota) More() int { return q.Buckets - len(q.Envoys) }

// quotas is what Envoys are assigned, and what they use.
func quotas(p *Page, r *http.Request, _ *frame) (any, error) {
	b := new(quotasBody)
	return b, p.Call(r.Context(), "GET", "/api/v1/quota", nil, b)
}
