// Package sim is the command 'throttle sim': policies in virtual time, compared.
package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/report"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scoreboard"
	"github.com/throttle-go/throttle/cmd/throttle/internal/survey"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

const help = `throttle sim simulates policies in virtual time and compares them.

Usage: throttle sim [flags] [SCENARIO ...]

A SCENARIO is a built-in name (see -list), a YAML file, or - for standard input.
Default: heroku.
'throttle sim scoreboard' puts all scenarios in one table, 120 columns wide: the
median and the worst of the main measures. Without a SCENARIO it runs all
built-in ones, under all policies and peers, and where callers can overload the
server also under none and adaptive with a learnt concurrency limit. It stops a
run at 2,000,000 requests, and makes at most 3 runs where there are 10,000
workers or more. 'throttle sim survey' draws scenarios at random: see 'throttle
sim survey -h'.

Flags, before or after the scenarios:
  -policy a,b    the policies to compare, with settings if need be:
                 'backoff(factor=2),adaptive(probe=20s)'. Default: all but
                 the peers, which are those of other libraries: see -policies
  -seeds N       how many runs of each: default 20, at most 10000
  -seed K        the first seed, default 1; the others follow it
  -json          print JSON in place of tables
  -html FILE     write charts and tables into one HTML file
  -svg FILE      write a picture of one scenario: throttled answers over time
  -md FILE       write the scoreboard as Markdown too, unless interrupted
                 (as a FILE, - is standard output, in place of the tables)
  -assert 'POLICY.MEASURE<NUMBER'
                 exit with 3 unless the median over the seeds is so; any of
                 < <= > >= == !=; may be given several times; holds for every
                 scenario, or with SCENARIO/ in front for that one
  -list          list the built-in scenarios
  -policies      list the policies with their settings

A scenario in a file:

  name: shared
  duration: 30m
  server:
    limit: token-bucket   # or leaky-bucket (with queue: 20), fixed-window,
                          # sliding-window, sliding-slots, sliding-log,
                          # first-hit-window, calendar-window, none
    rate: 4/s             # COUNT/[N]UNIT: 75/min, 100/10s, 5000/h, 0/s
    burst: 8              # default: one second's worth, at least 1
    start: 8              # tokens at the start; default: full
    hints: [remaining]    # retry-after, reset, policy, share, crowded; full: when
                          # a token bucket is full, and of how many
    errors: 0.01          # share that fails for another reason
    changes:
      - {at: 10m, rate: 8/s}  # an outage: rate: 0/s, retry_after: 30s
    service: {time: 20ms} # what it works on each; at_once: 10, queue: 50
  network: {latency: 100ms, spread: 0.2}
  stop: {sent: 20000}     # or remaining: 2
  clients:
    - {processes: 1, workers: 4}
    - {processes: 5, workers: 4, join: 2m, every: 10s, leave: 20m}
    - {processes: 1, workers: 1, policy: none, rival: true, work: 500}
    - {processes: 2, workers: 2, policy: {name: backoff, factor: 2}, arrivals: 3/s}
    - {processes: 2, workers: 2, on: 10s, off: 60s, timeout: 2s, patience: 9s}

More of a server: limits, gap, scale, by, counts, nodes, phase, final. More of
clients: deadline, retries, budget, cost, keys, scopes, clock, and arrivals in
steps, in batches and from a trace. docs/simulator.md has them all.

Examples:
  throttle sim
  throttle sim heroku heroku-clear -html report.html
  throttle sim -policy 'backoff,backoff(factor=2),adaptive' -seeds 100 emr-shared
  throttle sim -assert 'adaptive.retry_rate<0.05' -assert 'adaptive.utilisation>0.9' my.yaml
  throttle sim -json dynamodb
  throttle find -observe times.log -scenario - | throttle sim -
  throttle sim scoreboard
  throttle sim scoreboard -policy adaptive,aws-adaptive -seeds 5 rise drop my.yaml
`

// maxSeeds is how many runs of each policy there are at most.
const maxSeeds = 10_000

// options is what the command line asks for.
type options struct {
	policies  []sim.Policy
	seeds     int
	seed      uint64
	json      bool
	html, svg string
	asserts   []assert
	scenarios []sim.Scenario
	board     bool         // a scoreboard is wanted
	bounded   []sim.Policy // of it, where callers can drown the server
	md        string       // where to, in Markdown
	args      []string
}

// Run simulates what args ask for, and reports it.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == survey.Word {
		return survey.Run(ctx, args[1:], stdin, stdout, stderr)
	}
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	o := options{args: args}
	var policies, asserts []string
	flags.Func("policy", "", collect(&policies))
	flags.Func("assert", "", collect(&asserts))
	flags.IntVar(&o.seeds, "seeds", 20, "")
	flags.Uint64Var(&o.seed, "seed", 1, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.StringVar(&o.html, "html", "", "")
	flags.StringVar(&o.svg, "svg", "", "")
	flags.StringVar(&o.md, "md", "", "")
	list := flags.Bool("list", false, "")
	listPolicies := flags.Bool("policies", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case (*list || *listPolicies) && flags.NFlag()+len(names) > 1:
		return usage.Error("-list and -policies: run nothing; write each by itself")
	case *list:
		return writeScenarios(stdout)
	case *listPolicies:
		return writePolicies(stdout)
	}
	if err := o.read(policies, asserts, names, stdin); err != nil {
		return err
	}
	return o.run(ctx, stdout, stderr)
}

func collect(into *[]string) func(string) error {
	return func(text string) error {
		*into = append(*into, text)
		return nil
	}
}

// read understands the words of the command line, before anything is run.
func (o *options) read(policies, asserts, names []string, stdin io.Reader) (err error) {
	if o.seeds < 1 || o.seeds > maxSeeds {
		return usage.Errorf("-seeds %d: must be from 1 to %d", o.seeds, maxSeeds)
	}
	if o.seed > math.MaxUint64-uint64(o.seeds-1) {
		return usage.Errorf("-seed %d: must be at most %d, so that %d follow", o.seed, uint64(math.MaxUint64)-uint64(o.seeds-1), o.seeds-1)
	}
	if names, err = o.readBoard(names); err != nil {
		return err
	}
	if o.board && len(policies) == 0 {
		policies = scoreboard.Policies()
		if o.bounded, err = policy.Read([]string{scoreboard.Bounded}); err != nil {
			return err
		}
	}
	if o.policies, err = policy.Read(policies); err != nil {
		return err
	}
	if o.scenarios, err = scenario.Read(names, stdin); err != nil {
		return err
	}
	for _, text := range asserts {
		a, err := parseAssert(text, o.scenarios, o.plan)
		if err != nil {
			return err
		}
		o.asserts = append(o.asserts, a)
	}
	if o.svg != "" && len(o.scenarios) > 1 {
		return usage.Errorf("-svg: a picture is of one scenario, not of %d", len(o.scenarios))
	}
	return outfile.Check(o.json, scenario.Files(names),
		outfile.Output{Option: "-html", Path: o.html, Begins: outfile.HTML}, outfile.Output{Option: "-svg", Path: o.svg, Begins: outfile.SVG},
		outfile.Output{Option: "-md", Path: o.md, Begins: scoreboard.Title})
}

// run does the work and reports it.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	var results []batch.Result
	all, done := 0, 0
	for _, s := range o.scenarios {
		policies, seeds := o.plan(s)
		all += len(policies) * seeds
	}
	show := terminal.Progress(stderr)
	for _, s := range o.scenarios {
		var look func(batch.Where)
		if terminal.Is(stderr) {
			look = func(w batch.Where) { show(progress(s, w, done, all)) }
		}
		r := o.runOne(ctx, s, look)
		for _, row := range r.Rows {
			done += row.Seeds
		}
		results = append(results, r)
		if r.Interrupted {
			break
		}
	}
	show("")
	if err := o.report(results, stdout, stderr); err != nil {
		return err
	}
	if done < all {
		return exit.Failf("interrupted: %d of %d runs", done, all)
	}
	if o.md != "" && o.md != outfile.Dash {
		if err := scoreboard.WriteFile(o.md, scoreboard.Command(o.args), results, o.seeds); err != nil {
			return exit.Failf("-md: %v", err)
		}
	}
	return checkAsserts(o.asserts, results)
}

// progress is the line that shows how far the work is.
func progress(s sim.Scenario, w batch.Where, done, all int) string {
	line := fmt.Sprintf("%s: %d of %d runs; %s at %s", s.Name, done+w.Done, all, w.Policy, words.Lasting(w.At.Round(time.Second)))
	if s.Duration > 0 {
		line += fmt.Sprintf(" (%d %%)", 100*w.At/s.Duration)
	}
	return line + fmt.Sprintf(", %s sent", words.Whole(w.Sent))
}

// report writes all that was asked for.
func (o *options) report(results []batch.Result, stdout, stderr io.Writer) error {
	var out bytes.Buffer
	write := func() error { return table.Write(&out, results, terminal.Colours(stdout), terminal.Width(stdout)) }
	switch {
	case o.json:
		write = func() error { return report.WriteJSON(&out, results) }
	case o.html == outfile.Dash:
		write = func() error { return report.WriteHTML(&out, results) }
	case o.svg == outfile.Dash:
		write = func() error { return report.WriteSVG(&out, results) }
	case o.md == outfile.Dash && !results[len(results)-1].Interrupted:
		write = func() error { return scoreboard.WriteMarkdown(&out, scoreboard.Command(o.args), results, o.seeds) }
	case o.board:
		write = func() error { return scoreboard.Write(&out, results, o.seeds, terminal.Colours(stdout)) }
	}
	if err := write(); err != nil {
		return exit.Failure(err.Error())
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return exit.Failf("standard output: %v", err)
	}
	warn(stderr, results, o.board)
	if o.svg != "" && o.svg != outfile.Dash {
		if err := outfile.Write(o.svg, func(w io.Writer) error { return report.WriteSVG(w, results) }); err != nil {
			return exit.Failf("-svg: %v", err)
		}
	}
	if o.html == "" || o.html == outfile.Dash {
		return nil
	}
	if err := report.WriteHTMLFile(o.html, results); err != nil {
		return exit.Failf("-html: %v", err)
	}
	return nil
}

// warn says what the tables do not: which runs were cut short, which a
// scoreboard marks, and where calls were lost.
func warn(stderr io.Writer, results []batch.Result, board bool) {
	for _, r := range results {
		for _, row := range r.Rows {
			if row.Summary.Cut > 0 && !board {
				fmt.Fprintf(stderr, "throttle: %s: %d of %d runs of %s sent 200 million requests, or had four million in flight, and were cut short there\n", r.Scenario.Name, row.Summary.Cut, row.Seeds, row.Policy)
			}
			if n := row.Summary.Overflow; n > 0 {
				fmt.Fprintf(stderr, "throttle: %s: under %s, %d calls found 10,000 queued in their process already and were not made\n", r.Scenario.Name, row.Policy, n)
			}
		}
	}
}
