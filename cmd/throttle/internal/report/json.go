package report

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/jsonobject"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// WriteJSON writes the results in version 1 of the form that 'throttle sim
// -json' prints. Fields may be added to it; those that are there stay.
func WriteJSON(w io.Writer, results []batch.Result) error {
	all := struct {
		Version int       `json:"version"`
		Results []jsonRow `json:"results"`
	}{Version: 1, Results: []jsonRow{}}
	for _, r := range results {
		for _, row := range r.Rows {
			all.Results = append(all.Results, jsonRow{r.Scenario, row})
		}
	}
	return json.NewEncoder(w).Encode(all)
}

// jsonRow is a row of a scenario's table as an object with its keys in order.
type jsonRow struct {
	scenario sim.Scenario
	row      batch.Row
}

// MarshalJSON writes the measures in the order of sim.Measures.
func (r jsonRow) MarshalJSON() ([]byte, error) {
	o := jsonobject.Object{}
	o.Put("scenario", r.scenario.Name)
	o.Put("policy", r.row.Policy)
	family, _, _ := strings.Cut(r.row.Policy, "(")
	if settings := r.scenario.Settings[family]; settings != "" { // those that the policy does not have of its own
		o.Put("scenario_settings", settings)
	}
	o.Put("seeds", r.row.Seeds)
	for i, m := range sim.Measures {
		if m.Rare && !r.row.Summary.Stats[i].OK {
			continue
		}
		o.Put(m.Name, statOf(r.row.Summary.Stats[i]))
	}
	groups := []jsonGroup{}
	for _, g := range r.row.Summary.Groups {
		groups = append(groups, jsonGroup{g.Policy, statOf(g.Sent), statOf(g.Served), statOf(g.Throttled), statOf(g.Share)})
	}
	o.Put("groups", groups)
	return o.Close()
}

// jsonGroup is the part of one group of clients.
type jsonGroup struct {
	Policy    string    `json:"policy"`
	Sent      *jsonStat `json:"sent"`
	Served    *jsonStat `json:"served"`
	Throttled *jsonStat `json:"throttled"`
	Share     *jsonStat `json:"share"`
}

// jsonStat is a measure over all seeds.
type jsonStat struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// statOf is nil, null in JSON, where the measure does not apply.
func statOf(s pace.Opt[sim.Stat]) *jsonStat {
	if !s.OK {
		return nil
	}
	return &jsonStat{s.V.Median, s.V.Min, s.V.Max}
}
