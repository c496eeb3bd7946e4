package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/jsonobject"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/chart"
	"github.com/throttle-go/throttle/sim"
)

// result is what a search found.
type result struct {
	*search
	best  *trial
	front []*trial
	// fresh are the default and the best on seeds that the search did not use;
	// nil if interrupted.
	freshDefault, freshBest *trial
}

// result checks the best and the default on fresh seeds: of many settings the
// best was lucky too.
func (o *options) result(ctx context.Context, best *trial) result {
	s := &o.search
	r := result{search: s, best: best, front: front(s.tried, s.axes)}
	again := []*trial{{policy: s.byRule.policy}, {policy: best.policy}}
	if best == s.byRule {
		again = again[:1]
	}
	s.measure(ctx, again, s.seeds, 2*s.seeds)
	for _, t := range again {
		if len(t.runs) < s.seeds {
			return r
		}
		s.judge(t)
	}
	r.freshDefault, r.freshBest = again[0], again[len(again)-1]
	return r
}

// shownAs is how a measure is shown: retry rates in percent.
func shownAs(m int) (label string, scale float64) {
	name := sim.Measures[m].Name
	if strings.HasPrefix(name, "retry_rate") {
		return name + " %", 100
	}
	return name, 1
}

func (t *trial) shown(m int) string {
	if !t.median[m].OK {
		return "-"
	}
	_, scale := shownAs(m)
	return table.Figure(t.median[m].V * scale)
}

func (r result) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", r.scenario.Name, scenario.Gist(r.scenario))
	fmt.Fprintf(w, "%s: %s, %s, %s\n\n", &r.space,
		words.Plural(len(r.drawn), "setting", "settings"), words.Plural(r.done, "run", "runs"), seedsInWords(r.first, r.seeds))
	rows := [][]string{{"median", "weight", "default", "best"}}
	for _, t := range r.score {
		label, _ := shownAs(t.measure)
		rows = append(rows, []string{label, words.Number(t.by), r.byRule.shown(t.measure), r.best.shown(t.measure)})
	}
	rows = append(rows, []string{"score", "", table.Figure(r.byRule.score), table.Figure(r.best.score)})
	if r.freshBest != nil {
		rows = append(rows, []string{
			"score on " + seedsInWords(r.first+uint64(r.seeds), r.seeds), "",
			table.Figure(r.freshDefault.score), table.Figure(r.freshBest.score),
		})
	}
	writeColumns(w, rows)
	if len(r.left) > 0 {
		fmt.Fprintf(w, "This scenario has no %s.\n", words.Enumerate(r.left))
	}
	text, use := r.verdict()
	fmt.Fprintf(w, "\n%s\n\n-policy '%s'\n\n", text, use.policy.Name)
	r.writeFront(w)
}

// seedsInWords is n seeds from the first on.
func seedsInWords(first uint64, n int) string {
	if n == 1 {
		return fmt.Sprintf("seed %d", first)
	}
	return fmt.Sprintf("seeds %d to %d", first, first+uint64(n)-1)
}

// verdict says in words what the search found, and which policy to use.
func (r result) verdict() (text string, use *trial) {
	var ends []string
	for i, d := range r.space.dims {
		const end = 0.02
		if u := r.best.point[i]; len(d.words) == 0 && (u < end || u > 1-end) {
			ends = append(ends, d.name)
		}
	}
	if len(ends) > 0 {
		text = fmt.Sprintf("At the end of the range: %s. A wider one may hold more.\n", words.Enumerate(ends))
	}
	switch {
	case r.best == r.byRule && r.freshBest == nil:
		return text + "So far nothing found is better than the defaults:", r.byRule
	case r.best == r.byRule || r.best.score >= r.byRule.score:
		return text + "Keep the defaults; nothing found is better:", r.byRule
	case r.freshBest == nil:
		return text + "The best found so far, not checked on other seeds:", r.best
	case r.freshBest.score >= r.freshDefault.score:
		return text + fmt.Sprintf("Keep the defaults; on the other seeds %s is no better:", r.best.policy.Name), r.byRule
	}
	return text + "The best found:", r.best
}

// frontRows is how much of the front is printed; JSON has all.
const frontRows = 12

func (r result) writeFront(w io.Writer) {
	x, _ := shownAs(r.axes[0])
	y, _ := shownAs(r.axes[1])
	few := spread(r.front, frontRows)
	if len(few) == 0 {
		fmt.Fprintf(w, "There is no front: the scenario has no %s, or no %s.\n", x, y)
		return
	}
	fmt.Fprintf(w, "The front, where nothing found is better in both, %d of %d:\n\n", len(few), len(r.front))
	rows := [][]string{{"", x, y, "score"}}
	for _, t := range few {
		rows = append(rows, []string{t.policy.Name, t.shown(r.axes[0]), t.shown(r.axes[1]), table.Figure(t.score)})
	}
	writeColumns(w, rows)
}

// writeColumns writes rows with their first cells on the left.
func writeColumns(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := table.Fill(row[0], widths[0])
		for i, cell := range row[1:] {
			line += "  " + table.Pad(cell, widths[i+1])
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// writeJSON writes version 1 of the form that 'throttle tune -json' prints.
// Fields may be added to it; those that are there stay.
func (r result) writeJSON(w io.Writer) error {
	type counted struct {
		Measure string  `json:"measure"`
		Weight  float64 `json:"weight"`
		Unit    float64 `json:"unit"`
	}
	all := struct {
		Version  int         `json:"version"`
		Scenario string      `json:"scenario"`
		Space    string      `json:"space"`
		Seed     uint64      `json:"seed"`
		Seeds    int         `json:"seeds"`
		Settings int         `json:"settings"`
		Runs     int         `json:"runs"`
		Weights  []counted   `json:"weights"`
		Default  jsonTrial   `json:"default"`
		Best     jsonTrial   `json:"best"`
		Axes     [2]string   `json:"axes"`
		Front    []jsonTrial `json:"front"`
	}{
		Version: 1, Scenario: r.scenario.Name, Space: r.space.String(), Seed: r.first, Seeds: r.seeds,
		Settings: len(r.drawn), Runs: r.done,
		Default: jsonTrial{r.byRule, r.freshDefault}, Best: jsonTrial{r.best, r.freshBest},
		Weights: []counted{}, Front: []jsonTrial{},
		Axes: [2]string{sim.Measures[r.axes[0]].Name, sim.Measures[r.axes[1]].Name},
	}
	for _, t := range r.score {
		all.Weights = append(all.Weights, counted{sim.Measures[t.measure].Name, t.by, t.unit})
	}
	for _, t := range r.front {
		all.Front = append(all.Front, jsonTrial{t, nil})
	}
	return json.NewEncoder(w).Encode(all)
}

// jsonTrial is a trial as an object with its keys in order.
type jsonTrial struct{ trial, fresh *trial }

// MarshalJSON writes the medians in the order of sim.Measures.
func (t jsonTrial) MarshalJSON() ([]byte, error) {
	o := jsonobject.Object{}
	o.Put("policy", t.trial.policy.Name)
	o.Put("score", finite(t.trial.score))
	if t.fresh != nil {
		o.Put("fresh_score", finite(t.fresh.score))
	}
	for i, m := range sim.Measures {
		if f := t.trial.median[i]; f.OK {
			o.Put(m.Name, f.V)
			continue
		}
		o.Put(m.Name, nil)
	}
	return o.Close()
}

// finite is x, or null where a measure was absent.
func finite(x float64) any {
	if math.IsInf(x, 0) {
		return nil
	}
	return x
}

// Diameters of the dots of the picture, in pixels.
const (
	dotOfOne = 9
	dotOfAll = 3
)

// picture is the front, the best and the default, and what else was tried as
// near as they are.
func (r result) picture() chart.Chart {
	x, _ := shownAs(r.axes[0])
	y, _ := shownAs(r.axes[1])
	chosen := slices.Concat([]*trial{r.best, r.byRule}, r.front)
	best := "best"
	if name := r.best.policy.Name; utf8.RuneCountInString(name) <= 32 { // else the legend has no room
		best += ": " + name
	}
	few := slices.DeleteFunc(slices.Clone(r.tried), func(t *trial) bool { return !r.among(t, chosen) })
	return chart.Chart{
		Title: fmt.Sprintf("%s: the trade-off of %s", r.scenario.Name, r.space.name),
		X:     x, Y: y,
		Series: []chart.Series{
			r.series("front", 0, r.front),
			r.series(best, dotOfOne, []*trial{r.best}),
			r.series("default", dotOfOne, []*trial{r.byRule}),
			r.series("tried", dotOfAll, few),
		},
	}
}

// among reports whether t lies within the least rectangle around others.
func (r result) among(t *trial, others []*trial) bool {
	for _, m := range r.axes {
		above, below := false, false
		for _, o := range others {
			above = above || o.median[m].V >= t.median[m].V
			below = below || o.median[m].V <= t.median[m].V
		}
		if !above || !below || !t.median[m].OK {
			return false
		}
	}
	return true
}

// series is a line through trials, or dots.
func (r result) series(name string, dot float64, trials []*trial) chart.Series {
	s := chart.Series{Name: name, Dot: dot}
	sorted := slices.Clone(trials)
	slices.SortStableFunc(sorted, func(a, b *trial) int { return cmp.Compare(a.median[r.axes[0]].V, b.median[r.axes[0]].V) })
	for _, t := range sorted {
		if !t.median[r.axes[0]].OK || !t.median[r.axes[1]].OK {
			continue
		}
		_, scaleX := shownAs(r.axes[0])
		_, scaleY := shownAs(r.axes[1])
		s.X, s.Y = append(s.X, t.median[r.axes[0]].V*scaleX), append(s.Y, t.median[r.axes[1]].V*scaleY)
	}
	return s
}
