package survey

import (
	"fmt"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim/survey"
)

// Bars of a survey as a whole.
const (
	usualSeeds   = 20
	mostHopeless = 0.15
	mostWon      = 0.02 // of all cells, by one peer
	mostWonGroup = 0.05
	mostMissed   = 0.01 // of pairs
	mostLosing   = 0.05
)

// title is a line that says what was surveyed.
func (r report) title() string {
	o := r.options
	text := fmt.Sprintf("%s in %s, seed %d, %s each", o.policy.Name, words.Plural(len(r.outcomes), "cell", "cells"), o.seed, words.Plural(o.seeds, "run", "runs"))
	if o.seeds < usualSeeds {
		text += fmt.Sprintf(" (medians of fewer than %d)", usualSeeds)
	}
	return text
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// rows are the groups, all first.
func (r report) rows() (rows [][]string) {
	rows = append(rows, append([]string{"group", "cells", "held", "share"}, survey.Bars[:]...))
	if len(r.peers) > 0 {
		rows[0] = append(rows[0], knowing[:]...)
	}
	for _, g := range append([]groupTally{{survey.Group{By: "all"}, r.all}}, r.groups...) {
		row := []string{strings.TrimSuffix(g.String(), ": "), fmt.Sprint(g.judged()), fmt.Sprint(g.held), percent(part(g.held, g.judged()))}
		for _, n := range g.missed {
			row = append(row, fmt.Sprint(n))
		}
		for _, n := range g.told[:len(rows[0])-len(row)] {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return rows
}

// peerRows are the peers, those that win most first.
func (r report) peerRows() (rows [][]string) {
	rows = append(rows, []string{"peer", "wins", "share", "most in", "share there"})
	for _, p := range r.peers {
		row := []string{p.name, fmt.Sprint(p.wins), percent(part(p.wins, r.all.judged())), "", ""}
		if p.wins > 0 {
			row[3], row[4] = p.worst.String(), percent(p.worstShare)
		}
		rows = append(rows, row)
	}
	return rows
}

// pairRows says what one more hint did, all hints first.
func (r report) pairRows() (rows [][]string) {
	rows = append(rows, []string{"hint added", "pairs", "from held to missed", "a figure worse", "by chance: missed", "worse"})
	for _, p := range r.pairs {
		row := []string{p.hint, fmt.Sprint(p.pairs)}
		for _, n := range []int{p.told.missed, p.told.loses, p.other.missed, p.other.loses} {
			row = append(row, fmt.Sprintf("%d (%s)", n, percent(part(n, p.pairs))))
		}
		rows = append(rows, row)
	}
	return rows
}

// pairLine explains them.
func pairLine() string {
	return fmt.Sprintf("One true hint more: at most %s may go from held to missed, and a figure may be worse in at most %s. By chance: the same cells without it, in other runs.",
		percent(mostMissed), percent(mostLosing))
}

// heldLine says how many cells are held, and how many were left out.
func (r report) heldLine() string {
	t := r.all
	text := fmt.Sprintf("held %d of %d (%s), beyond the bars by %.3f; left out as hopeless %d (%s, at most %s)",
		t.held, t.judged(), percent(part(t.held, t.judged())), t.beyond/float64(max(t.judged(), 1)), t.hopeless, percent(part(t.hopeless, t.cells)), percent(mostHopeless))
	if r.options.peers && !r.options.pairs {
		text += fmt.Sprintf("; of those missed, %d are held by a peer, %d only by processes told their even share of the rate, %d only by clients that share one rate limiter, %d by none",
			t.rivals[aPeer], t.rivals[evenShares], t.rivals[oneLimiter], t.rivals[nobody])
	}
	return text
}

func (r report) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n\n", r.title(), r.heldLine())
	columns(w, r.rows())
	if len(r.peers) > 0 {
		fmt.Fprintf(w, "\ncells that a peer wins (of each at most %s, and %s of a group)\n", percent(mostWon), percent(mostWonGroup))
		columns(w, r.peerRows())
	}
	if r.options.pairs {
		fmt.Fprintf(w, "\n%s\n\n", pairLine())
		columns(w, r.pairRows())
		for _, x := range r.outcomes {
			if x.pair.told.missed || x.pair.told.loses && r.options.verbose {
				fmt.Fprintf(w, "%s\n  told   %s | %s\n", about(x), figureText(x.cell, x.pair.ours), x.pair.hint)
			}
		}
		return
	}
	if len(r.worst) > 0 {
		fmt.Fprintf(w, "\nmissed, the worst first\n")
	}
	for _, x := range r.worst {
		fmt.Fprintln(w, about(x))
	}
}

// about is a cell and what came of it, in three lines.
func about(x outcome) string {
	text := fmt.Sprintf("%d: %s\n  ours   %s", x.cell.Number, gist(x.cell), figureText(x.cell, x.ours))
	if missed := x.verdict.Missed(); len(missed) > 0 {
		text += fmt.Sprintf(" | misses %s, ×%.3g", strings.Join(missed, " "), x.verdict.Worst())
	}
	text += "\n  bound  " + figureText(x.cell, x.bound)
	if len(x.winners) > 0 {
		text += "\n  won by " + strings.Join(x.winners, ", ")
	}
	return text
}

func gist(c survey.Cell) string {
	text := scenario.Gist(c.Scenario)
	if c.Trouble != survey.None {
		text += "; " + string(c.Trouble)
	}
	return text
}

func figureText(c survey.Cell, f survey.Figures) string {
	text := fmt.Sprintf("throttled %s, served %s, p99 %s", percent(f.Retry), table.Figure(f.Served), seconds(f.Wait))
	if c.Fair() {
		text += fmt.Sprintf(", jain %.3f", f.Jain)
	}
	if c.Mode == survey.Job {
		text += ", finish " + seconds(f.Finish)
	}
	return text
}

func seconds(s float64) string {
	if s == survey.Never {
		return "never"
	}
	return table.Figure(s) + " s"
}

// columns writes rows in columns, numbers to the right.
func columns(w io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		line := table.Fill(row[0], width[0])
		for i, cell := range row[1:] {
			line += "  " + table.Pad(cell, width[i+1])
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
