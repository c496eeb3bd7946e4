package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
)

// topState is GET /api/v1/top: the keys with most decisions.
type topState struct {
	By   string `json:"by"`
	Rule string `json:"rule,omitempty"`
	// Instances is the number of those that were counted; Err is why no others were.
	Instances int    `json:"instances"`
	Err       string `json:"err,omitempty"`
	// Since is the beginning of what was counted, and At the end.
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	// Total is the count of all keys; Missed bounds that of each key that is not
	// listed. Sampled is 1 if all decisions were counted, and the bounds are exact.
	Total   uint64   `json:"total"`
	Missed  uint64   `json:"missed"`
	Sampled uint32   `json:"sampled"`
	Keys    []topKey `json:"keys"`
}

// topKey is one key of a topState.
type topKey struct {
	Rule  string `json:"rule"`
	KeyID string `json:"key_id"` // that of the first limit of the rule
	// Key has the value of each part, or is left out where keys are hidden, or not
	// kept in the clear: secrets, and long ones.
	Key []string `json:"key,omitempty"`
	// Count was counted of the key. The true count is from AtLeast to AtMost.
	Count   uint64 `json:"count"`
	AtLeast uint64 `json:"at_least"`
	AtMost  uint64 `json:"at_most"`
}

const (
	defaultTop = "20"
	maxTop     = 1000
)

var measures = map[string]sketch.By{"all": sketch.All, "refused": sketch.Refused, "near": sketch.Near}

// top is GET /api/v1/top?by=all|refused|near&rule=NAME&n=NUMBER.
func (s *server) top(w http.ResponseWriter, r *http.Request) error {
	if s.c.Recent == nil {
		return failf(http.StatusNotFound, "this process makes no decisions")
	}
	is := topState{By: cmp.Or(r.FormValue("by"), "all"), Rule: r.FormValue("rule"), At: time.Now().UTC(), Keys: []topKey{}}
	by, known := measures[is.By]
	if !known {
		return failf(http.StatusBadRequest, "by %.40q: must be all, refused or near", is.By)
	}
	n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), defaultTop))
	if err != nil || n < 1 || n > maxTop {
		return failf(http.StatusBadRequest, "n %.40q: must be a number from 1 to %d", r.FormValue("n"), maxTop)
	}
	found := s.topOf(&is, by, n)
	is.Since = sketch.Since(is.At).UTC()
	if is.Since.Before(s.began) {
		is.Since = s.began.UTC()
	}
	is.Total, is.Missed, is.Sampled = found.Total, found.Missed, found.Sampled
	for _, k := range found.Keys {
		is.Keys = append(is.Keys, s.topKey(k))
	}
	reply(w, is)
	return nil
}

// topOf finds the top keys, of all instances that are heard of.
func (s *server) topOf(is *topState, by sketch.By, n int) (found sketch.Top) {
	if is.Instances = 1; s.c.Peers == nil {
		return s.c.Recent.Top(is.At, by, is.Rule, n)
	}
	var err error
	found, is.Instances, err = s.c.Peers.Top(is.At, by, is.Rule, n)
	is.Err = text(err)
	return found
}

func (s *server) topKey(k sketch.Key) topKey {
	is := topKey{Rule: k.Rule, KeyID: k.ID, Count: k.Count, AtLeast: k.AtLeast, AtMost: k.AtMost}
	if s.c.ShowKeys {
		is.Key = valuesOf(k.Text)
	}
	return is
}

// valuesOf returns the values in a key of the store, RULE/N/PART=VALUE/..., see
// package rules; nil if one of them is a digest.
func valuesOf(key string) (all []string) {
	parts := strings.Split(key, "/")
	if len(parts) < 3 {
		return nil
	}
	for _, part := range parts[2:] {
		_, value, _ := strings.Cut(part, "=")
		value, err := url.PathUnescape(value)
		if err != nil { // %~ begins a digest
			return nil
		}
		all = append(all, value)
	}
	return all
}
