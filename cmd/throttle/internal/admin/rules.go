package admin

import (
	"net/http"

	"github.com/throttle-go/throttle/rules"
)

// ruleState is a rule of GET /api/v1/rules, as it is written, and what it did.
type ruleState struct {
	rules.Rule
	// Counts are decisions by reason since the start of this process.
	Counts map[string]int64 `json:"counts"`
}

// rules is GET /api/v1/rules: the rules in use, and what they did.
func (s *server) rules(w http.ResponseWriter, _ *http.Request) error {
	set, err := s.set()
	if err != nil {
		return err
	}
	counts := map[string]map[string]int64{}
	for what, n := range s.counts() {
		if counts[what.Rule] == nil {
			counts[what.Rule] = map[string]int64{}
		}
		counts[what.Rule][what.Reason] += n
	}
	all := []ruleState{}
	for _, rule := range set.Rules {
		is := ruleState{rule, counts[rule.Name]}
		if is.Counts == nil {
			is.Counts = map[string]int64{}
		}
		all = append(all, is)
	}
	reply(w, map[string]any{
		"version": s.configuration().Version, "kill": set.Kill, "rules": all,
		"deny": list(set.Deny), "allow": list(set.Allow), "switches": list(set.Switches),
	})
	return nil
}

// list returns all as a JSON list, also where there are none.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
