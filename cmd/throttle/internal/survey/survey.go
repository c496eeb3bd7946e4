// Package survey is the command 'throttle sim survey': a policy in scenarios
// drawn at random, against a bound and against its peers.
package survey

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/sim"
)

// Word, as the first scenario of 'throttle sim', asks for a survey.
const Word = "survey"

const help = `throttle sim survey draws scenarios at random and judges a policy in each, or several.

Usage: throttle sim survey [flags]

Drawn log-uniformly are rates from 10/h to 5,000/s, bursts from 1 to an hour's
worth, latencies from 1 ms to 10 s, some with heavy tails, 1 to 100 processes;
uniformly the kind of limit, the hints of the server, closed loops, open
arrivals at 30 to 120 % of the limit, or a job of 20 to 2,000 calls; in a third
of the cells there are steps, drifts, an outage, errors, or processes that join
or leave.

A cell is held if at most 10 % is throttled (5 % where the server states what
remains or its policy), at least 0.9 of what the bound serves is served, Jain's
index is at least 0.9, the 99th percentile of waits at most 3 times the bound's
and 5 intervals of a process, and a job's finish at most 1.5 times the bound's
and 2 latencies. The bound is a coordinator of all clients that knows the server's
state. The columns x-time-rate and shared count the cells held by policies that
know the rate: each process at its even share, and one rate limiter that all
clients share. A peer wins a cell if it is refused at most 5 points and 10
requests more than the policy, serves nine tenths as much, and waits or finishes
within three quarters less an interval. Beyond the bars is the mean over the
cells of the sum of ln(how many times) of what is missed, each at most ln 20:
less is better. Of the cells that are missed it says who holds them instead: a
peer; if none does, processes told their even share of the rate; if they do not,
clients that share one rate limiter; or nobody.

Several policies are put side by side: for each group of cells, what each holds,
and the means of what is throttled, used, waited and so on. So it shows what a
setting trades for what, as in 'adaptive-informed,adaptive-informed(probe=15s)'.

Flags:
  -cells N       how many scenarios: default 300, at most 100000
  -cell K        only the K-th, counted from 0
  -seed S        of the draw, default 1
  -seeds N       runs of each, whose medians are judged; default 20
  -policy P,...  the policy to judge, default adaptive-informed; several are put
                 side by side, by the bars of the first
  -peers=false   leave out the peers, which take most of the time; beside several
                 policies there are none but those that are named
  -pairs         judge pairs instead: the same cell with one true hint more
  -v             list every cell that is missed, not the ten worst
  -worst DIR     write the ten worst cells into files that 'throttle sim' runs;
                 DIR is made if it is not there
  -md FILE       write a page of documentation
  -json          print JSON, with the figures of every cell
`

// Bounds of a survey.
const (
	maxCells = 100_000
	maxSeeds = 1000
	mostBad  = 10 // cells listed and written
	allCells = math.MinInt
)

// options is what the command line asks for.
type options struct {
	cells, cell int
	seed        uint64
	seeds       int
	policy      sim.Policy   // the first
	policies    []sim.Policy // all
	peers       bool
	pairs       bool
	verbose     bool
	worst, md   string
	json        bool
}

// Run surveys what args ask for.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("sim survey", flag.ContinueOnError)
	var o options
	flags.IntVar(&o.cells, "cells", 300, "")
	flags.IntVar(&o.cell, "cell", allCells, "")
	flags.Uint64Var(&o.seed, "seed", 1, "")
	flags.IntVar(&o.seeds, "seeds", 20, "")
	flags.BoolVar(&o.peers, "peers", true, "")
	flags.BoolVar(&o.pairs, "pairs", false, "")
	flags.BoolVar(&o.verbose, "v", false, "")
	flags.StringVar(&o.worst, "worst", "", "")
	flags.StringVar(&o.md, "md", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	name := flags.String("policy", "adaptive-informed", "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 0:
		return usage.Errorf("survey %s: the scenarios are drawn; name none", names[0])
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["cell"] && given["cells"] {
		return usage.Error("-cell and -cells: one cell, or how many; write one of them")
	}
	if err := o.check(*name); err != nil {
		return err
	}
	return o.run(ctx, stdout, stderr)
}

// check understands the command line before anything is run.
func (o *options) check(name string) error {
	policies, err := policy.Read([]string{name})
	switch {
	case err != nil:
		return err
	case len(policies) > 1 && (o.pairs || o.verbose || o.worst != ""):
		return usage.Errorf("-policy: %d policies; -pairs, -v and -worst are of one", len(policies))
	case o.cells < 1 || o.cells > maxCells:
		return usage.Errorf("-cells %d: must be from 1 to %d", o.cells, maxCells)
	case o.cell != allCells && (o.cell < 0 || o.cell >= maxCells):
		return usage.Errorf("-cell %d: must be from 0 to %d", o.cell, maxCells-1)
	case o.seeds < 1 || o.seeds > maxSeeds:
		return usage.Errorf("-seeds %d: must be from 1 to %d", o.seeds, maxSeeds)
	}
	o.policy, o.policies = policies[0], policies
	if err := outfile.Check(o.json, nil, outfile.Output{Option: "-md", Path: o.md, Begins: heading}); err != nil || o.worst == "" {
		return err
	}
	return outfile.Folder("-worst", o.worst)
}

// numbers are those of the cells.
func (o *options) numbers() (all []int) {
	if o.cell != allCells {
		return []int{o.cell}
	}
	for i := range o.cells {
		all = append(all, i)
	}
	return all
}

// page is a survey as it is printed.
type page interface {
	writeText(io.Writer)
	writeMarkdown(io.Writer)
	writeJSON(io.Writer) error
}

// survey does the work; worst are the cells that are missed, the worst first.
func (o *options) survey(ctx context.Context, progress func(done int)) (p page, worst []outcome, err error) {
	if len(o.policies) > 1 {
		cells, err := overCells(ctx, o, progress, o.beside)
		return sidesOf(o, cells), nil, err
	}
	outcomes, err := overCells(ctx, o, progress, o.judge)
	r := o.report(outcomes)
	return r, r.worst, err
}

// run does the work and reports it.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	show := terminal.Progress(stderr)
	p, worst, err := o.survey(ctx, func(done int) {
		show(fmt.Sprintf("%d of %d cells", done, len(o.numbers())))
	})
	show("")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	switch {
	case o.json:
		err = p.writeJSON(&out)
	case o.md == outfile.Dash:
		p.writeMarkdown(&out)
	default:
		p.writeText(&out)
	}
	if err != nil {
		return exit.Failure(err.Error())
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return exit.Failf("standard output: %v", err)
	}
	return o.files(p, worst)
}

// files writes those that were asked for.
func (o *options) files(p page, worst []outcome) error {
	if o.md != "" && o.md != outfile.Dash {
		if err := outfile.Write(o.md, func(w io.Writer) error { p.writeMarkdown(w); return nil }); err != nil {
			return exit.Failf("-md: %v", err)
		}
	}
	if o.worst == "" {
		return nil
	}
	for _, x := range worst {
		s := x.cell.Scenario
		path := filepath.Join(o.worst, s.Name+".yaml")
		if err := outfile.Write(path, func(w io.Writer) error { return scenario.Write(w, s) }); err != nil {
			return exit.Failf("-worst: %v", err)
		}
	}
	return nil
}
