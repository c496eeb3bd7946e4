package page

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

// reasonWords say what a reason means.
var reasonWords = map[string]string{
	"within": "passed: all limits had room", "unlimited": "passed: no rule limits it", "allowed": "passed by the allow list",
	"killed": "passed by the kill switch", "away": "passed without the store", "over": "refused by a limit",
	"denied": "refused by the deny list", "no-key": "refused: a part of the key is missing", "busy": "refused: too many in flight",
	"shadow": "a dry run would have refused", "shadow-error": "a dry run failed", "refund-error": "a refund failed",
}

// reasonRow is a line of decisions by reason.
type reasonRow struct {
	Reason, Means, Class string
	PerSecond            float64
	Recent, All          int64
	Share                int // percent of Recent
}

// change by hand that holds now.
type active struct {
	What, On, Say string
	note
	End endForm // the form that ends it
}

// endForm is what the form that ends a change sends.
type endForm struct {
	Do, Rule, Switch, Entry string
	Key                     []string
}

type overviewBody struct {
	Reasons   []reasonRow
	Decisions chart
	Latency   chart
	Active    []active
	Hand      byHand
	KillNote  note
	KillOwn   bool // the kill switch of the overlay is on
}

// overview is decisions by reason, latency, state, and what was changed by hand.
func overview(p *Page, r *http.Request, f *frame) (any, error) {
	b := &overviewBody{
		Decisions: decisions(f.Drawn(), f.Now, "", chart{Kind: "decisions", Width: chartWidth, Height: chartHeight, Label: "Decisions a second in the last ten minutes, passed and refused"}, chartStep),
		Latency:   latency(f.Drawn(), f.Now), Reasons: reasons(f),
	}
	if err := p.Call(r.Context(), "GET", "/api/v1/overlay", nil, &b.Hand); err != nil && p.Status(err) != http.StatusNotFound {
		return b, err
	}
	b.Active = changes(&b.Hand, f)
	var kill struct {
		On bool
		note
	}
	if json.Unmarshal(b.Hand.Overlay.Kill, &kill) == nil && (kill.Until.IsZero() || kill.Until.After(f.Now)) {
		b.KillNote, b.KillOwn = kill.note, kill.On || !kill.Until.IsZero()
	}
	return b, nil
}

// reasons are the lines of decisions by reason, those of the most first.
func reasons(f *frame) (all []reasonRow) {
	recent, sum := map[string]int64{}, int64(0)
	for _, t := range f.Ticks {
		for reason, n := range t.Reasons {
			recent[reason] += n
			sum += n
		}
	}
	for _, reason := range slices.Collect(maps.Keys(f.Status.Decisions)) {
		row := reasonRow{Reason: reason, Means: reasonWords[reason], Class: classOf(reason), Recent: recent[reason], All: f.Status.Decisions[reason]}
		row.PerSecond = float64(f.Last.Reasons[reason]) / max(f.Last.Seconds, 1e-3)
		if sum > 0 {
			row.Share = int(100 * row.Recent / sum)
		}
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b reasonRow) int { return cmp.Or(cmp.Compare(b.All, a.All), cmp.Compare(a.Reason, b.Reason)) })
	return all
}

func classOf(reason string) string {
	switch {
	case ticks.Passes(reason):
		return "passed"
	case strings.HasPrefix(reason, "shadow") || reason == "refund-error":
		return "shadow"
	}
	return "refused"
}

// changes are those of an overlay that hold now.
func changes(hand *byHand, f *frame) (all []active) {
	add := func(a active) {
		if a.Until.IsZero() || a.Until.After(f.Now) {
			all = append(all, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hand.Overlay.Overrides)) {
		for _, v := range hand.Overlay.Overrides[name] {
			add(active{"raise", name + " · " + strings.Join(v.Key, " + "), limitWords(v.Limits, v.InFlight), v.note, endForm{Do: "end-raise", Rule: name, Key: v.Key}})
		}
	}
	for _, e := range hand.Overlay.Deny {
		add(active{"block", e.Entry, "refused", e.note, endForm{Do: "end-block", Entry: e.Entry}})
	}
	for _, e := range hand.Overlay.Allow {
		add(active{"exempt", e.Entry, "not limited", e.note, endForm{Do: "end-exempt", Entry: e.Entry}})
	}
	for _, name := range slices.Sorted(maps.Keys(hand.Overlay.Switches)) {
		for _, c := range hand.Overlay.Switches[name] {
			add(active{"switch", name + " · " + c.Key, c.Value, c.note, endForm{Do: "end-switch", Switch: name, Key: []string{c.Key}}})
		}
	}
	if back := hand.Overlay.Set; back != nil {
		add(active{What: "roll-back", On: back.Version, Say: "in place of the sources", End: endForm{Do: "end-rollback"}})
	}
	return all
}

// limitWords are limits in words.
func limitWords(limits []string, inFlight int64) string {
	text := strings.Join(limits, ", ")
	if inFlight > 0 {
		text += strings.TrimPrefix(", ", map[bool]string{true: ", "}[text == ""]) + "at most " + ticks.Rate(float64(inFlight)) + " in flight"
	}
	return text
}
