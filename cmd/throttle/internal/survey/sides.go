package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// side is a cell under several policies, each judged by the bars of the first.
type side struct {
	cell     survey.Cell
	informed bool // as the first hears
	bound    survey.Figures
	of       []survey.Figures // by policy
	held     []bool
	hopeless bool
}

// beside runs one cell under each policy, on the same arrivals.
func (o *options) beside(ctx context.Context, c survey.Cell) side {
	x := side{cell: c, informed: c.Informed(o.policies[0].Hears)}
	x.bound = o.figures(ctx, c, o.seeds, sim.Bound, math.MaxInt64)
	for _, p := range o.policies {
		f := o.figures(ctx, c, o.seeds, with(p), enough(3, x.bound))
		x.of = append(x.of, f)
		x.held = append(x.held, c.Judge(f, x.bound, x.informed).Held())
	}
	x.hopeless = c.Small() && !slices.Contains(x.held, true) && !c.Judge(x.bound, x.bound, x.informed).Held()
	return x
}

// measure is what a table of policies side by side shows of one of them.
type measure struct {
	name, about string
	of          func(x side, f survey.Figures, held bool) (value float64, counts bool)
	ratio       bool // the mean is geometric
}

// mostRatio is what a wait or a finish counts as that is longer, or never comes.
const mostRatio = 1000

var measures = [...]measure{
	{
		"held", "Cells in which no bar is missed; under any: by one of these policies or another.",
		func(_ side, _ survey.Figures, held bool) (float64, bool) { return float64(one(held)), true }, false,
	},
	{
		"throttled", "The mean share of requests that are refused.",
		func(_ side, f survey.Figures, _ bool) (float64, bool) { return f.Retry, true }, false,
	},
	{
		"used", "The mean of what is served over what the bound serves, except in jobs.",
		func(x side, f survey.Figures, _ bool) (float64, bool) {
			return min(f.Served/max(x.bound.Served, 1), 1), x.cell.Mode != survey.Job
		}, false,
	},
	{
		"jain", "The mean of Jain's index, where several processes call and it is no job.",
		func(x side, f survey.Figures, _ bool) (float64, bool) { return f.Jain, x.cell.Fair() }, false,
	},
	{
		"wait", fmt.Sprintf("How many times the bound's the 99th percentile of waits is, each with an interval of a process added: the geometric mean. A wait without end counts as %d times.", mostRatio),
		func(x side, f survey.Figures, _ bool) (float64, bool) {
			i := x.cell.Interval()
			return ratio(f.Wait+i, x.bound.Wait+i), true
		}, true,
	},
	{
		"finish", fmt.Sprintf("How many times the bound's the time is in which a job is done: the geometric mean. One that is never done counts as %d times.", mostRatio),
		func(x side, f survey.Figures, _ bool) (float64, bool) {
			return ratio(f.Finish, x.bound.Finish), x.cell.Mode == survey.Job
		}, true,
	},
}

// ratio is a/b, within mostRatio either way.
func ratio(a, b float64) float64 {
	return min(max(a/max(b, math.SmallestNonzeroFloat64), 1.0/mostRatio), mostRatio)
}

// mean is that of a policy over cells; false where none counts.
func (m measure) mean(cells []side, policy int) (mean float64, ok bool) {
	sum, n := 0.0, 0
	for _, x := range cells {
		value, counts := m.of(x, x.of[policy], x.held[policy])
		switch {
		case !counts:
			continue
		case m.ratio:
			value = math.Log(value)
		}
		sum += value
		n++
	}
	if n == 0 {
		return 0, false
	}
	if mean = sum / float64(n); m.ratio {
		mean = math.Exp(mean)
	}
	return mean, true
}

// text is a mean as it is printed.
func (m measure) text(mean float64, ok bool) string {
	switch {
	case !ok:
		return "–"
	case m.name == "held" || m.name == "throttled":
		return percent(mean)
	case m.ratio:
		return fmt.Sprintf("%.2f", mean)
	}
	return fmt.Sprintf("%.3f", mean)
}

// sides are policies side by side, as they are printed.
type sides struct {
	options *options
	cells   []side // without those that are hopeless
	drawn   int
}

// sidesOf leaves out the cells that are hopeless.
func sidesOf(o *options, cells []side) sides {
	drawn := len(cells)
	return sides{o, slices.DeleteFunc(cells, func(x side) bool { return x.hopeless }), drawn}
}

// group is the cells of a group.
type group struct {
	name  string
	cells []side
}

// groups are all cells, and those of each group that has any.
func (s sides) groups() []group {
	groups := []group{{"all", s.cells}}
	for _, g := range survey.AllGroups() {
		var in []side
		for _, x := range s.cells {
			if slices.Contains(x.cell.Groups(x.informed), g) {
				in = append(in, x)
			}
		}
		if len(in) > 0 {
			groups = append(groups, group{g.String(), in})
		}
	}
	return groups
}

// anyHolds is the share of cells that one policy or another holds.
func anyHolds(cells []side) float64 {
	n := 0
	for _, x := range cells {
		n += one(slices.Contains(x.held, true))
	}
	return part(n, len(cells))
}

// rows are the groups by the policies.
func (s sides) rows(m measure) (rows [][]string) {
	head := []string{"group", "cells"}
	for _, p := range s.options.policies {
		head = append(head, p.Name)
	}
	if m.name == "held" {
		head = append(head, "any")
	}
	rows = append(rows, head)
	for _, g := range s.groups() {
		row := []string{g.name, fmt.Sprint(len(g.cells))}
		for i := range s.options.policies {
			row = append(row, m.text(m.mean(g.cells, i)))
		}
		if m.name == "held" {
			row = append(row, percent(anyHolds(g.cells)))
		}
		rows = append(rows, row)
	}
	return rows
}

func (s sides) title() string {
	return fmt.Sprintf("%d policies in %s, seed %d, %s each; left out as hopeless %d",
		len(s.options.policies), words.Plural(s.drawn, "cell", "cells"), s.options.seed, words.Plural(s.options.seeds, "run", "runs"), s.drawn-len(s.cells))
}

func (s sides) writeText(w io.Writer) {
	fmt.Fprintln(w, s.title())
	for _, m := range measures {
		fmt.Fprintf(w, "\n%s: %s\n\n", m.name, m.about)
		columns(w, s.rows(m))
	}
}

func (s sides) writeMarkdown(w io.Writer) {
	fmt.Fprintf(w, heading+" of several policies\n\nRate limits and their callers drawn at random, and how each retry policy does in them. Written by\n\n    %s\n\n", s.options.command())
	fmt.Fprintf(w, "%s.\nWhat is drawn and when a cell is held: `throttle sim survey -h`. All policies are held to the bars of the first.\n", s.title())
	for _, m := range measures {
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n", strings.ToUpper(m.name[:1])+m.name[1:], m.about)
		markdown(w, s.rows(m))
	}
}

// sidesJSON are the figures of policies side by side; a measure is null where no cell of the
// group counts.
type sidesJSON struct {
	Policies []string    `json:"policies"`
	Seed     uint64      `json:"seed"`
	Runs     int         `json:"runs"`
	Cells    int         `json:"cells"`
	Hopeless int         `json:"hopeless"`
	Groups   []groupJSON `json:"groups"`
}

type groupJSON struct {
	Group string                `json:"group"`
	Cells int                   `json:"cells"`
	Any   float64               `json:"held_by_any"`
	Of    []map[string]*float64 `json:"by_policy"`
}

func (s sides) writeJSON(w io.Writer) error {
	o := s.options
	j := sidesJSON{Seed: o.seed, Runs: o.seeds, Cells: s.drawn, Hopeless: s.drawn - len(s.cells)}
	for _, p := range o.policies {
		j.Policies = append(j.Policies, p.Name)
	}
	for _, g := range s.groups() {
		line := groupJSON{Group: g.name, Cells: len(g.cells), Any: anyHolds(g.cells)}
		for i := range o.policies {
			of := map[string]*float64{}
			for _, m := range measures {
				of[m.name] = nil
				if mean, ok := m.mean(g.cells, i); ok {
					of[m.name] = &mean
				}
			}
			line.Of = append(line.Of, of)
		}
		j.Groups = append(j.Groups, line)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(j)
}
