package page

import (
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

// ruleRow is a rule with what it did.
type ruleRow struct {
	rule
	Spark                   chart
	Passed, Refused, Shadow float64 // a second
	Near                    int     // keys; -1: not known
	Over                    int64   // refused since the start
	Holding                 []override
}

type rulesBody struct {
	Version     string
	Rules       []ruleRow
	Deny, Allow []entry
}

// rulesView is each rule with what it does now.
func rulesView(p *Page, r *http.Request, f *frame) (any, error) {
	var all inUse
	if err := p.Call(r.Context(), "GET", "/api/v1/rules", nil, &all); err != nil {
		return &rulesBody{}, err
	}
	b := &rulesBody{Version: all.Version, Deny: all.Deny, Allow: all.Allow}
	near := nearKeys(p, r)
	for _, one := range all.Rules {
		b.Rules = append(b.Rules, rowOf(one, near, f))
	}
	return b, nil
}

func rowOf(one rule, near map[string]int, f *frame) ruleRow {
	row := ruleRow{rule: one, Near: -1}
	row.Spark = decisions(f.Drawn(), f.Now, one.Name, chart{Kind: "spark", Name: one.Name, Width: sparkWidth, Height: sparkHeight, Label: "Decisions of rule " + one.Name + " in the last ten minutes"}, sparkStep)
	row.Passed, row.Refused, row.Shadow = f.Last.PerSecond(one.Name)
	if near != nil {
		row.Near = near[one.Name]
	}
	for reason, n := range one.Counts {
		if !ticks.Passes(reason) && reason != "shadow" {
			row.Over += n
		}
	}
	for _, v := range one.Overrides {
		if v.Until.IsZero() || v.Until.After(f.Now) {
			row.Holding = append(row.Holding, v)
		}
	}
	return row
}

// Ends is when the first of them ends by itself.
func (r ruleRow) Ends() (t time.Time) {
	for _, v := range r.Holding {
		if !v.Until.IsZero() && (t.IsZero() || v.Until.Before(t)) {
			t = v.Until
		}
	}
	return t
}
