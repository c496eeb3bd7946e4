// Package scoreboard writes all scenarios and policies in one table, for
// 'throttle sim scoreboard'.
package scoreboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Word, as the first scenario, asks for the scoreboard.
const Word = "scoreboard"

// Bounds of a scoreboard, which has to be done in minutes.
const (
	// MaxSent is how many requests a run sends before it is stopped.
	MaxSent = 2_000_000
	// manyWorkers is the number of workers from which on fewSeeds runs are enough.
	manyWorkers = 10_000
	fewSeeds    = 3
)

// Plan returns what a scoreboard runs of a scenario. Where all clients have
// policies of their own, the policy that is tested makes no difference.
func Plan(s sim.Scenario, policies []sim.Policy, seeds int) ([]sim.Policy, int) {
	workers := 0
	for _, g := range s.Clients {
		workers += g.Processes * g.Workers
	}
	if workers >= manyWorkers {
		seeds = min(seeds, fewSeeds)
	}
	if !slices.ContainsFunc(s.Clients, func(g sim.Group) bool { return g.Policy == nil }) {
		policies = policies[:1]
	}
	return policies, seeds
}

// Bounded are the policies to add where callers can drown the server.
const Bounded = "none(in-flight=adaptive),adaptive(in-flight=adaptive)"

// Drowns reports whether requests queue in the server of s while their callers
// give up.
func Drowns(s sim.Scenario) bool {
	queues := s.Server.Queue > 0 || s.Server.Service.Queue != 0
	return queues && slices.ContainsFunc(s.Clients, func(g sim.Group) bool { return g.Timeout > 0 })
}

// headings are the measures of a scoreboard, as its columns.
var headings = []struct {
	measure, name string
	scale         float64
}{
	{"retry_rate", "retry %", 100},
	{"max_sleep_s", "max sleep s", 1},
	{"stdev_requests", "stdev", 1},
	{"jain", "jain", 1},
	{"utilisation", "utilisation", 1},
	{"throughput", "served per s", 1},
	{"finish_s", "finish s", 1},
	{"reconverge_s", "reconverge s", 1},
}

// section is one scenario.
type section struct {
	name, gist string
	rows       []string
	columns    []column
}

// column is one measure, a cell for each row.
type column struct {
	name  string
	cells []cell
}

// cell is the median of a measure and the worst of all seeds.
type cell struct {
	median, worst string
	best          bool
}

// sectionOf puts a scenario's results in order.
func sectionOf(r batch.Result) section {
	b := section{name: r.Scenario.Name, gist: strings.Join(append([]string{scenario.Gist(r.Scenario)}, scenario.Settings(r.Scenario)...), "; ")}
	if !slices.ContainsFunc(r.Scenario.Clients, isMeasured) {
		b.fillGroups(r)
		return b
	}
	seeds := 0
	for _, row := range r.Rows {
		seeds = max(seeds, row.Seeds)
	}
	for _, row := range r.Rows {
		label := row.Policy
		if row.Summary.Cut > 0 {
			label += " †"
		}
		if row.Seeds < seeds { // interrupted
			label += fmt.Sprintf(" (%d of %d)", row.Seeds, seeds)
		}
		b.rows = append(b.rows, label)
	}
	for _, h := range headings {
		if m := measures.At(h.measure); shows(r, h.measure) {
			b.add(h.name, h.scale, sim.Measures[m].Better, r.Rows, func(row batch.Row) pace.Opt[sim.Stat] { return row.Summary.Stats[m] })
		}
	}
	if i := onlyMeasured(r.Scenario); i >= 0 {
		b.add("share", 1, 1, r.Rows, func(row batch.Row) pace.Opt[sim.Stat] { return row.Summary.Groups[i].Share })
	}
	return b
}

// shows reports whether a measure tells anything in a scenario.
func shows(r batch.Result, measure string) bool {
	applies := func(name string) bool {
		for _, row := range r.Rows {
			if row.Summary.Stats[measures.At(name)].OK {
				return true
			}
		}
		return false
	}
	switch measure {
	case "jain": // of one process it is 1
		processes := 0
		for _, g := range r.Scenario.Clients {
			if isMeasured(g) {
				processes += g.Processes
			}
		}
		return processes > 1 && applies(measure)
	case "throughput": // as good as utilisation, or as finish, unless work is done for callers that have gone
		return Drowns(r.Scenario) || !applies("utilisation") && !applies("finish_s")
	}
	return applies(measure)
}

func isMeasured(g sim.Group) bool { return !g.Rival && g.Policy == nil }

// onlyMeasured is the one group that is measured among others that are not, -1
// if it is otherwise.
func onlyMeasured(s sim.Scenario) int {
	only, n := -1, 0
	for i, g := range s.Clients {
		if isMeasured(g) {
			only = i
			n++
		}
	}
	if n != 1 || len(s.Clients) == 1 {
		return -1
	}
	return only
}

// add makes a column, and marks the best median of the runs that were not
// stopped.
func (b *section) add(name string, scale float64, better int, rows []batch.Row, of func(batch.Row) pace.Opt[sim.Stat]) {
	c := column{name: name}
	var best pace.Opt[float64]
	for _, row := range rows {
		s := of(row)
		c.cells = append(c.cells, cellOf(s, scale, better))
		if s.OK && row.Summary.Cut == 0 && (!best.OK || s.V.Median*float64(better) > best.V*float64(better)) {
			best = pace.Some(s.V.Median)
		}
	}
	for i := range c.cells {
		c.cells[i].best = best.OK && len(rows) > 1 && rows[i].Summary.Cut == 0 && c.cells[i].median == table.Figure(best.V*scale)
	}
	b.columns = append(b.columns, c)
}

func cellOf(s pace.Opt[sim.Stat], scale float64, better int) cell {
	if !s.OK {
		return cell{median: "-", worst: "-"}
	}
	worst := s.V.Max
	if better > 0 {
		worst = s.V.Min
	}
	return cell{median: table.Figure(s.V.Median * scale), worst: table.Figure(worst * scale)}
}

// fillGroups makes a row of each group, where all have policies of their own.
func (b *section) fillGroups(r batch.Result) {
	share, retry, used := column{name: "share"}, column{name: "retry %"}, column{name: "utilisation"}
	for _, row := range r.Rows {
		total := row.Summary.Stats[measures.At("utilisation")]
		for i, g := range row.Summary.Groups {
			label := fmt.Sprintf("%s %d×%d", g.Policy, r.Scenario.Clients[i].Processes, r.Scenario.Clients[i].Workers)
			if row.Summary.Cut > 0 {
				label += " †"
			}
			b.rows = append(b.rows, label)
			share.cells = append(share.cells, cellOf(g.Share, 1, 1))
			retry.cells = append(retry.cells, cellOf(g.RetryRate, 100, -1))
			used.cells = append(used.cells, cellOf(total, 1, 1))
		}
	}
	b.columns = []column{share, retry, used}
}

// Command returns the command line of 'throttle sim' with args, quoted for a
// shell.
func Command(args []string) string {
	words := []string{"go run ./cmd/throttle sim"}
	for _, a := range args {
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:") != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// Policies returns the policies of a scoreboard for which none are named: all,
// and the peers.
func Policies() (names []string) {
	for _, p := range policy.All(sim.Scenario{}) {
		names = append(names, p.Name)
	}
	return names
}
