package admin

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/throttleenvoy"
)

// quotaState is GET /api/v1/quota: what Envoys are assigned of each limit, and use of it.
type quotaState struct {
	Streams int       `json:"streams"`
	Buckets int       `json:"buckets"`
	All     int       `json:"all"` // limits, of which the ones with the most requests are listed
	At      time.Time `json:"at"`
	Limits  []quota   `json:"limits"`
}

// quota is a limit that Envoys share. Rates are in events of the limit a second.
type quota struct {
	Rule  string `json:"rule"`
	KeyID string `json:"key_id"`
	// Key has the value of each part, or is left out where keys are hidden, or not
	// kept in the clear.
	Key   []string `json:"key,omitempty"`
	Limit string   `json:"limit"`
	// Supply is what this process has to divide, and Assigned how much of it is.
	Supply   float64 `json:"supply"`
	Assigned float64 `json:"assigned"`
	Allowed  float64 `json:"allowed"`
	Denied   float64 `json:"denied"`
	Away     bool    `json:"away,omitempty"` // the store failed last
	// Buckets is the number of those that share it, of which Envoys are some.
	Buckets int          `json:"buckets"`
	Envoys  []quotaShare `json:"envoys"`
}

// quotaShare is what one Envoy is assigned, and uses, by one bucket.
type quotaShare struct {
	Envoy    string    `json:"envoy"` // its address; empty if its stream has ended
	Rate     float64   `json:"rate"`
	Burst    int64     `json:"burst"`
	Allowed  float64   `json:"allowed"`
	Denied   float64   `json:"denied"`
	Reported time.Time `json:"reported"`
	Until    time.Time `json:"until"` // it is assigned, unless it is renewed
}

const (
	defaultQuotas = "20"
	maxQuotas     = 1000
	maxEnvoys     = 20 // of a limit
)

// quota is GET /api/v1/quota?n=NUMBER.
func (s *server) quota(w http.ResponseWriter, r *http.Request) error {
	if s.c.Quota == nil {
		return failf(http.StatusNotFound, "this process assigns no quotas to Envoy: set envoy.quota")
	}
	n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), defaultQuotas))
	if err != nil || n < 1 || n > maxQuotas {
		return failf(http.StatusBadRequest, "n %.40q: must be a number from 1 to %d", r.FormValue("n"), maxQuotas)
	}
	is := s.c.Quota.Stats()
	all := quotaState{Streams: is.Streams, Buckets: is.Buckets, All: is.Limits, At: time.Now().UTC(), Limits: []quota{}}
	for _, u := range s.c.Quota.Uses(n, maxEnvoys) {
		all.Limits = append(all.Limits, s.quotaOf(u))
	}
	reply(w, all)
	return nil
}

func (s *server) quotaOf(u throttleenvoy.QuotaUse) quota {
	rule, _, _ := strings.Cut(u.Key, "/")
	is := quota{
		Rule: rule, KeyID: keyID(u.Key), Limit: u.Limit.String(), Supply: u.Supply, Assigned: u.Assigned,
		Allowed: u.Allowed, Denied: u.Denied, Away: u.Away, Buckets: u.Buckets, Envoys: []quotaShare{},
	}
	if s.c.ShowKeys {
		is.Key = valuesOf(u.Key)
	}
	for _, e := range u.Shares {
		is.Envoys = append(is.Envoys, quotaShare{
			Envoy: e.Envoy, Rate: e.Rate, Burst: e.Burst, Allowed: e.Allowed, Denied: e.Denied,
			Reported: e.Reported.UTC(), Until: e.Expires.UTC(),
		})
	}
	return is
}
