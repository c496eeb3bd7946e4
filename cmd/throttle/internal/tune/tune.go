// Package tune is the command 'throttle tune': a search for the best settings of
// a policy in one scenario.
package tune

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

const help = `throttle tune searches the settings of a policy for one scenario.

Usage: throttle tune [flags] [SCENARIO]

SCENARIO is a built-in name, a YAML file, or - for standard input, as for
'throttle sim'. Default: heroku.

Flags, before or after the scenario:
  -policy P      one policy; settings may be ranges, LOW..HIGH, or choices, a|b;
                 a setting with one value keeps it. If there is no range, all
                 settings but limit and weight are searched, from an eighth of
                 their default to eight times it. Default: adaptive
  -weight M=W,.. what each measure counts; default
                 ` + defaultWeights + `,
                 as far as the scenario has them
  -front X,Y     the two measures of the trade-off. Default: retry_rate against
                 finish_s if the work ends, max_sleep_s otherwise
  -runs N        bound on the runs: default 2000, at most 100000
  -seeds N       how many of them are of one setting: default 20, at most
                 1000; as many others check the best at the end
  -seed K        the first seed, default 1
  -svg FILE      write a picture of the trade-off; - is standard output, in
                 place of the tables
  -json          print JSON in place of tables

The score is Σ weight × cost / Σ weight; the cost of a measure is its distance
from perfect, as a multiple of the distance that the defaults have. 0 is
perfect, 1 as good as the defaults. The same flags give the same result.

Examples:
  throttle tune heroku
  throttle tune -policy 'adaptive(probe=5s..5m)' -svg front.svg emr-shared
  throttle tune -policy 'backoff(factor=1.1..4,jitter=full|equal)' -weight retry_rate=3,finish_s=1 emr
`

// Bounds of a search.
const (
	maxSeeds = 1000
	maxRuns  = 100_000
)

// options is what the command line asks for.
type options struct {
	search search
	// front and weighted say that they were asked for by name.
	front, weighted bool
	json            bool
	svg             string
}

// Run searches what args ask for, and reports what it found.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("tune", flag.ContinueOnError)
	var o options
	policy := flags.String("policy", "adaptive", "")
	weights := flags.String("weight", "", "")
	axes := flags.String("front", "", "")
	flags.IntVar(&o.search.most, "runs", 2000, "")
	flags.IntVar(&o.search.seeds, "seeds", 20, "")
	flags.Uint64Var(&o.search.first, "seed", 1, "")
	flags.StringVar(&o.svg, "svg", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	names, err := usage.ParseFlags(flags, args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	if err := o.read(*policy, *weights, *axes, names, stdin); err != nil {
		return err
	}
	return o.run(ctx, stdout, stderr)
}

// read understands the words of the command line, before anything is run.
func (o *options) read(searched, weights, axes string, names []string, stdin io.Reader) (err error) {
	s := &o.search
	if s.seeds < 1 || s.seeds > maxSeeds {
		return usage.Errorf("-seeds %d: must be from 1 to %d", s.seeds, maxSeeds)
	}
	if most := math.MaxUint64 - uint64(2*s.seeds-1); s.first > most {
		return usage.Errorf("-seed %d: must be at most %d, so that %d follow", s.first, most, 2*s.seeds-1)
	}
	if least := leastRuns(s.seeds); s.most < least || s.most > maxRuns {
		return usage.Errorf("-runs %d: must be from %d, with -seeds %d, to %d", s.most, least, s.seeds, maxRuns)
	}
	if n := len(policy.Split(searched)); n > 1 {
		return usage.Errorf("-policy: one is searched, not %d", n)
	}
	if s.space, err = parseSpace(searched); err != nil {
		return err
	}
	o.weighted = weights != ""
	if !o.weighted {
		weights = defaultWeights
	}
	if s.weights, err = parseWeights(weights); err != nil {
		return err
	}
	if o.front = axes != ""; o.front {
		if s.axes, err = parseAxes(axes); err != nil {
			return err
		}
	}
	if len(names) > 1 {
		return usage.Errorf("one scenario is searched, not %d", len(names))
	}
	scenarios, err := scenario.Read(names, stdin)
	if err != nil {
		return err
	}
	s.scenario = scenarios[0]
	if tested := func(g sim.Group) bool { return g.Policy == nil }; !slices.ContainsFunc(s.scenario.Clients, tested) {
		return usage.Errorf("scenario %s: all clients have a policy of their own, and none has the one that is searched; leave out one policy", s.scenario.Name)
	}
	return outfile.Check(o.json, scenario.Files(names), outfile.Output{Option: "-svg", Path: o.svg, Begins: outfile.SVG})
}

// parseAxes reads two measures.
func parseAxes(text string) (axes [2]int, err error) {
	names := strings.Split(text, ",")
	if len(names) != 2 {
		return axes, usage.Errorf("-front %s: name two measures", words.Quote(text))
	}
	for i, name := range names {
		if axes[i], err = rankedMeasure("-front", strings.TrimSpace(name)); err != nil {
			return axes, err
		}
	}
	if axes[0] == axes[1] {
		return axes, usage.Errorf("-front %s: name two measures", words.Quote(text))
	}
	return axes, nil
}

// run does the work and reports it.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	s := &o.search
	show := terminal.Progress(stderr)
	s.progress = func(done int) {
		text := fmt.Sprintf("%s: %d of %d runs", s.scenario.Name, done, s.most)
		if best := s.best(); best != nil {
			text += fmt.Sprintf("; best score so far %s", table.Figure(best.score))
		}
		show(text)
	}
	known, err := s.measureDefault(ctx)
	if err == nil && known {
		if err = o.settle(); err == nil {
			err = s.run(ctx)
		}
	}
	if err != nil {
		show("")
		return err
	}
	best := s.best()
	if known && best != nil {
		r := o.result(ctx, best)
		show("")
		if err := o.report(r, stdout, stderr); err != nil {
			return err
		}
	}
	show("")
	if ctx.Err() != nil {
		return exit.Failf("interrupted: %d of %d runs", s.done, s.most)
	}
	return nil
}

// settle fits what was asked for to what the scenario has.
func (o *options) settle() error {
	s := &o.search
	has := func(m int) bool { return s.byRule.median[m].OK }
	if o.weighted && len(s.left) > 0 {
		return usage.Errorf("-weight: scenario %s has no %s", s.scenario.Name, words.Enumerate(s.left))
	}
	if !o.front {
		s.axes = [2]int{measures.At("finish_s"), measures.At("retry_rate")}
		if !has(s.axes[0]) {
			s.axes[0] = measures.At("max_sleep_s")
		}
	}
	for _, m := range s.axes {
		if o.front && !has(m) {
			return usage.Errorf("-front: scenario %s has no %s", s.scenario.Name, sim.Measures[m].Name)
		}
	}
	if len(s.score) == 0 {
		return usage.Errorf("scenario %s has none of the measures that count; give others with -weight", s.scenario.Name)
	}
	return nil
}

// report writes all that was asked for.
func (o *options) report(r result, stdout, stderr io.Writer) error {
	draw := func(w io.Writer) error { return r.picture().SVG(w, 760, 380) }
	var out bytes.Buffer
	var err error
	switch {
	case o.json:
		err = r.writeJSON(&out)
	case o.svg == outfile.Dash:
		err = draw(&out)
	default:
		r.writeText(&out)
	}
	if err != nil {
		return exit.Failure(err.Error())
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return exit.Failf("standard output: %v", err)
	}
	if r.cut > 0 {
		fmt.Fprintf(stderr, "throttle: %s: %d of %d runs sent 200 million requests, or had four million in flight, and were cut short there\n", r.scenario.Name, r.cut, r.done)
	}
	if o.svg != "" && o.svg != outfile.Dash {
		if err := outfile.Write(o.svg, draw); err != nil {
			return exit.Failf("-svg: %v", err)
		}
	}
	return nil
}
