package survey

import (
	"cmp"
	"slices"

	"github.com/throttle-go/throttle/sim/survey"
)

// report is a survey as it is printed.
type report struct {
	options  *options
	outcomes []outcome
	all      tally
	groups   []groupTally
	peers    []peerTally
	worst    []outcome   // those that are missed, the worst first
	pairs    []pairTally // of all hints together first, and of each
}

// tally counts cells.
type tally struct {
	cells, held, hopeless, apart int

	missed [len(survey.Bars)]int
	beyond float64             // of all cells together
	won    map[string]int      // by peers
	told   [len(knowing)]int   // held by those that know the rate
	rivals [oneLimiter + 1]int // of those missed: who holds them
}

// judged is how many cells count.
func (t tally) judged() int { return t.cells - t.hopeless }

// groupTally is the tally of a group.
type groupTally struct {
	survey.Group
	tally
}

// peerTally is how many cells a peer wins, and where it wins most.
type peerTally struct {
	name       string
	wins       int
	worst      groupTally
	worstShare float64
}

// pairTally counts pairs of cells with and without a hint, and what chance alone
// makes of the same cells.
type pairTally struct {
	hint        string
	pairs       int
	told, other struct{ missed, loses int }
}

// add counts one cell.
func (t *tally) add(x outcome) {
	t.cells++
	switch {
	case x.hopeless:
		t.hopeless++
		return
	case x.verdict.Held():
		t.held++
	default:
		t.rivals[x.rival]++
		t.apart += one(x.apart)
	}
	t.beyond += x.verdict.Beyond()
	for i, held := range x.told {
		t.told[i] += one(held)
	}
	for i, times := range x.verdict {
		if times > 1 {
			t.missed[i]++
		}
	}
	if t.won == nil {
		t.won = map[string]int{}
	}
	for _, name := range x.winners {
		t.won[name]++
	}
}

// report puts the outcomes together.
func (o *options) report(outcomes []outcome) report {
	r := report{options: o, outcomes: outcomes}
	for _, g := range survey.AllGroups() {
		t := groupTally{Group: g}
		for _, x := range outcomes {
			if slices.Contains(x.cell.Groups(x.informed), g) {
				t.add(x)
			}
		}
		if t.cells > 0 {
			r.groups = append(r.groups, t)
		}
	}
	for _, x := range outcomes {
		r.all.add(x)
		if !x.hopeless && !x.verdict.Held() {
			r.worst = append(r.worst, x)
		}
	}
	slices.SortStableFunc(r.worst, func(a, b outcome) int { return cmp.Compare(b.verdict.Worst(), a.verdict.Worst()) })
	if !o.verbose {
		r.worst = r.worst[:min(len(r.worst), mostBad)]
	}
	r.countPeers()
	if o.pairs {
		r.countPairs()
	}
	return r
}

func (r *report) countPairs() {
	for _, hint := range append([]string{"all"}, survey.Hints[:]...) {
		t := pairTally{hint: hint}
		for _, x := range r.outcomes {
			if p := x.pair; p.ok && (hint == "all" || hint == p.hint) {
				t.pairs++
				t.told.missed += one(p.told.missed)
				t.told.loses += one(p.told.loses)
				t.other.missed += one(p.other.missed)
				t.other.loses += one(p.other.loses)
			}
		}
		r.pairs = append(r.pairs, t)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// countPeers finds the peers that win anything, those that win most first.
func (r *report) countPeers() {
	if !r.options.peers || r.options.pairs {
		return
	}
	for _, p := range rivals(r.options.policy) {
		t := peerTally{name: p.Name, wins: r.all.won[p.Name]}
		for _, g := range r.groups {
			if share := part(g.won[p.Name], g.judged()); share > t.worstShare {
				t.worst, t.worstShare = g, share
			}
		}
		r.peers = append(r.peers, t)
	}
	slices.SortStableFunc(r.peers, func(a, b peerTally) int { return b.wins - a.wins })
}

// part is n of all, zero of none.
func part(n, all int) float64 { return float64(n) / float64(max(all, 1)) }
