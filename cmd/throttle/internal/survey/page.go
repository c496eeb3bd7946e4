package survey

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/throttle-go/throttle/sim/survey"
)

const heading = "# Survey"

// command is how a page is written again.
func (o *options) command() string {
	cells := fmt.Sprintf("-cells %d", o.cells)
	if o.cell != allCells {
		cells = fmt.Sprintf("-cell %d", o.cell)
	}
	names := make([]string, len(o.policies))
	for i, p := range o.policies {
		names[i] = p.Name
	}
	return fmt.Sprintf("go run ./cmd/throttle sim survey %s -seed %d -seeds %d -policy '%s' -md %s", cells, o.seed, o.seeds, strings.Join(names, ","), o.md)
}

// writeMarkdown writes the survey as a page of documentation.
func (r report) writeMarkdown(w io.Writer) {
	o := r.options
	fmt.Fprintf(w, heading+"\n\nRate limits and their callers drawn at random, and how the retry policy `%s` does in them. Written by\n\n    %s\n\n", o.policy.Name, o.command())
	fmt.Fprint(w, "What is drawn, when a cell is held and when a peer wins it: `throttle sim survey -h`.\n\n")
	fmt.Fprintf(w, "%s: %s. The next five columns count the cells that miss each bar.%s\n\n", r.title(), r.heldLine(), r.toldLine())
	markdown(w, r.rows())
	if len(r.peers) > 0 {
		fmt.Fprintf(w, "\n## Cells that a peer wins\n\nOf each peer at most %s of all cells, and %s of a group.\n\n", percent(mostWon), percent(mostWonGroup))
		markdown(w, r.peerRows())
	}
	if o.pairs {
		fmt.Fprintf(w, "\n## One true hint more\n\n%s\n\n", pairLine())
		markdown(w, r.pairRows())
	}
	if len(r.worst) > 0 {
		fmt.Fprint(w, "\n## The worst cells\n\n```\n")
		for _, x := range r.worst {
			fmt.Fprintln(w, about(x))
		}
		fmt.Fprint(w, "```\n")
	}
}

// toldLine explains the columns of those that know the rate.
func (r report) toldLine() string {
	if len(r.peers) == 0 {
		return ""
	}
	return " The last two count the cells that are held by policies which know the rate: `" + knowing[0] + "`, each process paced at its even share, and `" + sharedName + "`, one rate limiter before the server's that all clients share and that knows its limit, state and changes, but the time on the way only within bounds."
}

func markdown(w io.Writer, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|--:", len(row)-1))
		}
	}
}

// jsonFigures are figures without times of what did not happen.
type jsonFigures struct {
	Sent      float64  `json:"sent"`
	Served    float64  `json:"served"`
	Throttled float64  `json:"throttled"`
	RetryRate float64  `json:"retry_rate"`
	Jain      float64  `json:"jain"`
	Wait      *float64 `json:"wait_p99_s"`
	Finish    *float64 `json:"finish_s"`
	Cut       bool     `json:"cut,omitempty"`
}

func figuresOf(f survey.Figures) jsonFigures {
	time := func(s float64) *float64 {
		if s == survey.Never {
			return nil
		}
		return &s
	}
	return jsonFigures{f.Sent, f.Served, f.Throttled, f.Retry, f.Jain, time(f.Wait), time(f.Finish), f.Cut}
}

type jsonCell struct {
	Number   int          `json:"cell"`
	Gist     string       `json:"scenario"`
	Groups   []string     `json:"groups"`
	Held     bool         `json:"held"`
	Hopeless bool         `json:"hopeless,omitempty"`
	Apart    bool         `json:"held_by_none,omitempty"`
	Missed   []string     `json:"missed,omitempty"`
	Worst    float64      `json:"worst"`
	Winners  []string     `json:"won_by,omitempty"`
	Ours     jsonFigures  `json:"ours"`
	Bound    jsonFigures  `json:"bound"`
	Hint     string       `json:"hint_added,omitempty"`
	Told     *jsonFigures `json:"told,omitempty"`
	Again    *jsonFigures `json:"again,omitempty"` // without it, in other runs
}

type jsonReport struct {
	Policy   string     `json:"policy"`
	Seed     uint64     `json:"seed"`
	Runs     int        `json:"runs"`
	Cells    int        `json:"cells"`
	Held     int        `json:"held"`
	Beyond   float64    `json:"beyond"`
	Hopeless int        `json:"hopeless"`
	Apart    int        `json:"held_by_none"`
	Rivals   *jsonRival `json:"missed_and_held_by,omitempty"`
	Pairs    *pairsJSON `json:"pairs,omitempty"`
	All      []jsonCell `json:"all"`
}

// jsonRival is how many cells are missed that others hold.
type jsonRival struct {
	Peer       int `json:"a_peer"`
	EvenShares int `json:"even_shares"`
	OneLimiter int `json:"one_limiter"`
	Nobody     int `json:"nobody"`
}

type pairsJSON struct {
	Pairs       int `json:"pairs"`
	Missed      int `json:"missed"`
	Loses       int `json:"loses"`
	OtherMissed int `json:"missed_by_chance"`
	OtherLoses  int `json:"loses_by_chance"`
}

// writeJSON writes the survey with the figures of every cell.
func (r report) writeJSON(w io.Writer) error {
	o := r.options
	j := jsonReport{Policy: o.policy.Name, Seed: o.seed, Runs: o.seeds, Cells: r.all.cells, Held: r.all.held, Beyond: r.all.beyond / float64(max(r.all.judged(), 1)), Hopeless: r.all.hopeless, Apart: r.all.apart}
	if o.pairs {
		p := r.pairs[0]
		j.Pairs = &pairsJSON{p.pairs, p.told.missed, p.told.loses, p.other.missed, p.other.loses}
	}
	if t := r.all.rivals; o.peers && !o.pairs {
		j.Rivals = &jsonRival{t[aPeer], t[evenShares], t[oneLimiter], t[nobody]}
	}
	for _, x := range r.outcomes {
		j.All = append(j.All, cellOf(x))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(j)
}

func cellOf(x outcome) jsonCell {
	c := jsonCell{
		Number: x.cell.Number, Gist: gist(x.cell), Held: x.verdict.Held(), Hopeless: x.hopeless, Apart: x.apart,
		Missed: x.verdict.Missed(), Worst: x.verdict.Worst(), Winners: x.winners,
		Ours: figuresOf(x.ours), Bound: figuresOf(x.bound),
	}
	for _, g := range x.cell.Groups(x.informed) {
		c.Groups = append(c.Groups, g.String())
	}
	if x.pair.ok {
		told, again := figuresOf(x.pair.ours), figuresOf(x.pair.again)
		c.Hint, c.Told, c.Again = x.pair.hint, &told, &again
	}
	return c
}
