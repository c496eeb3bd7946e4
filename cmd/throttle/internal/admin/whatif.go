package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// edited is the body of POST /api/v1/whatif: the rules in use but for one, or others.
type edited struct {
	// Rules is a whole document of rules, in JSON.
	Rules json.RawMessage `json:"rules"`
	// Rule is one rule, in place of that of its name, or a new one.
	Rule json.RawMessage `json:"rule"`
	// Remove names a rule to leave out.
	Remove string `json:"remove"`
}

// whatIf is POST /api/v1/whatif: which of the recent requests other rules would have
// refused. Nothing is charged or changed.
func (s *server) whatIf(w http.ResponseWriter, r *http.Request) error {
	var ask edited
	if err := receive(r, &ask); err != nil {
		return err
	}
	select { // each takes copies of the rules and a second of a processor, so a few at a time
	case s.trials <- struct{}{}:
		defer func() { <-s.trials }()
	case <-r.Context().Done():
		return failf(http.StatusServiceUnavailable, "%d trials are running", maxTrials)
	}
	before, after, err := s.edited(&ask)
	if err != nil {
		return err
	}
	result, err := s.c.Recent.WhatIf(r.Context(), time.Now(), before, after, s.c.ShowKeys)
	switch {
	case err != nil && r.Context().Err() != nil:
		return failf(http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		return failf(http.StatusBadRequest, "%v", err)
	}
	reply(w, result)
	return nil
}

// edited returns the rules in use, and those that are asked for.
func (s *server) edited(ask *edited) (before, after *rules.Compiled, err error) {
	if s.c.Recent == nil {
		return nil, nil, failf(http.StatusNotFound, "this process makes no decisions")
	}
	if before, err = s.used(); err != nil {
		return nil, nil, err
	}
	set, err := ask.set(before.Set())
	if err != nil {
		return nil, nil, err
	}
	after, err = rules.Compile(set, s.c.Known...)
	return before, after, editProblem(err)
}

// set returns the rules that are asked for.
func (e *edited) set(in rules.Set) (set rules.Set, err error) {
	given := 0
	for _, is := range []bool{e.Rules != nil, e.Rule != nil, e.Remove != ""} {
		if is {
			given++
		}
	}
	at := slices.IndexFunc(in.Rules, func(r rules.Rule) bool { return r.Name == e.Remove })
	switch {
	case given != 1:
		return set, failf(http.StatusBadRequest, `rules: write one of "rules", a document, "rule", one rule, and "remove", its name`)
	case e.Remove != "" && at < 0:
		return set, failf(http.StatusNotFound, "rule %.64q: there is none of that name; see GET /api/v1/rules", e.Remove)
	case e.Remove != "":
		in.Rules = slices.Delete(in.Rules, at, at+1)
		return in, nil
	case e.Rules != nil:
		return set, flawOf(json.Unmarshal(e.Rules, &set))
	}
	return e.put(in)
}

// put returns the rules with one, in place of that of its name.
func (e *edited) put(in rules.Set) (set rules.Set, err error) {
	document := slices.Concat([]byte(`{"rules": [`), e.Rule, []byte(`]}`))
	if err := json.Unmarshal(document, &set); err != nil || len(set.Rules) != 1 {
		return set, cmp.Or(flawOf(err), failf(http.StatusBadRequest, "rule: must be one rule"))
	}
	if at := slices.IndexFunc(in.Rules, func(r rules.Rule) bool { return r.Name == set.Rules[0].Name }); at >= 0 {
		in.Rules[at] = set.Rules[0]
	} else {
		in.Rules = append(in.Rules, set.Rules[0])
	}
	return in, nil
}

// flawOf is an error of a document of rules, as a problem.
func flawOf(err error) error {
	if flaw := (*rules.Error)(nil); err == nil || errors.As(err, &flaw) {
		return editProblem(err)
	}
	return failf(http.StatusBadRequest, "rules: %v", err)
}
