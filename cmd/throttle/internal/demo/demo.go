// Package demo is the command 'throttle demo': policies live, on a limited API
// of this machine, beside what the simulator predicts.
package demo

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/report"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

const help = `throttle demo shows four ways of calling a rate limited API, live.

Usage: throttle demo [flags]

It starts an API on a free port of 127.0.0.1 and calls it over real sockets
until all work is done, some five seconds for each policy: none retries at
once, backoff-jitter backs off exponentially, adaptive learns the limit from
refusals, adaptive-informed from the RateLimit-Remaining of each answer.
The measures are those of 'throttle sim', with its prediction beside them. Live
and predicted agree if each figure is within 20 % of the predicted median, or
between the least and the greatest that was predicted; a retry rate, where 20 %
may be less than one request, also within one percentage point. If they do not,
the exit code is 1; or 3 if this machine was too busy to compare them: answers
came late, on average by a tenth of the latency or more.

Flags:
  -seed K   draws the latencies and when each worker starts, and is the first
            seed of the simulation; default 1
  -json     print JSON, of the form that sim prints; the prediction has the
            scenario demo-predicted

Examples:
  throttle demo
  throttle demo -seed 7
  throttle demo -json
`

// demoScenario is sized for a busy machine of two cores: latencies beside which
// those of loopback are small, and so many calls that chance is small.
func demoScenario() sim.Scenario {
	return sim.Scenario{
		Name: "demo",
		Server: sim.Server{
			Limit: limit.Limit{Count: 100, Period: time.Second, Burst: 50},
			Hints: sim.Hints{Remaining: true},
		},
		Network: sim.Network{Latency: 20 * time.Millisecond, Spread: 0.2},
		Clients: []sim.Group{{Processes: 2, Workers: 5, Work: 500}},
	}
}

// demoPolicies are what is shown. The last call of a backoff without a cap may
// rest for ten seconds while all others are done.
var demoPolicies = []string{"none", "backoff-jitter(cap=1s)", "adaptive", "adaptive-informed"}

// demoSeeds are enough to know the range of each figure.
const demoSeeds = 100

// demo is a scenario to be played live and simulated.
type demo struct {
	scenario sim.Scenario
	policies []sim.Policy
	seeds    int
	seed     uint64
	json     bool
	colour   bool
	show     func(text string) // progress
	serve    func(s sim.Scenario, seed uint64) (*liveServer, error)
}

// Run plays the demo live and compares it with the simulation.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	d := demo{
		scenario: demoScenario(), seeds: demoSeeds,
		colour: terminal.Colours(stdout), show: terminal.Progress(stderr), serve: serve,
	}
	flags.Uint64Var(&d.seed, "seed", 1, "")
	flags.BoolVar(&d.json, "json", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 0:
		return usage.Errorf("demo: %s: takes flags only; run 'throttle demo -h'", words.Quote(names[0]))
	}
	if d.policies, err = policy.Read(demoPolicies); err != nil {
		return err
	}
	return d.run(ctx, stdout)
}

// run predicts, plays all policies one after the other, and compares.
func (d demo) run(ctx context.Context, stdout io.Writer) error {
	predicted := batch.Run(ctx, d.scenario, d.policies, d.seeds, d.seed, nil)
	predicted.Scenario.Name += "-predicted"
	seen := batch.Result{Scenario: d.scenario, Seed: d.seed, Policies: d.policies}
	var stopped error
	var late []time.Duration
	if !predicted.Interrupted {
		seen.Rows, late, stopped = d.play(ctx)
		d.show("")
	}
	if ctx.Err() != nil {
		text := fmt.Sprintf("interrupted: %d of %d policies", len(seen.Rows), len(d.policies))
		if stopped != nil {
			text += ", and " + stopped.Error()
		}
		stopped = exit.Failure(text)
	}
	if len(seen.Rows) < len(predicted.Rows) { // nothing to compare the others with
		predicted.Rows = predicted.Rows[:len(seen.Rows)]
	}
	if err := d.report(stdout, seen, predicted); err != nil {
		return err
	}
	if stopped != nil {
		return stopped
	}
	return disagreement(seen.Rows, predicted.Rows, late, d.scenario.Network.Latency/10)
}

// play plays one policy after the other. late is by how much the answers to each
// were late. The error is about the policy that the rows end before.
func (d demo) play(ctx context.Context) (rows []batch.Row, late []time.Duration, err error) {
	server, err := d.serve(d.scenario, d.seed)
	if err != nil {
		return nil, nil, exit.Failure(err.Error())
	}
	defer server.close()
	for i, p := range d.policies {
		progress := func(done string) {
			d.show(fmt.Sprintf("%s (%d of %d): %s", p.Name, i+1, len(d.policies), done))
		}
		r, by, err := playLive(ctx, server, p, d.seed, progress)
		if err != nil {
			return rows, late, exit.Failure(p.Name + ": " + err.Error())
		}
		late = append(late, by)
		rows = append(rows, batch.Row{Policy: p.Name, Seeds: 1, Summary: sim.Summarise([]sim.Result{r})})
	}
	return rows, late, nil
}

// report writes what was seen and what was predicted, as far as there is any.
func (d demo) report(stdout io.Writer, seen, predicted batch.Result) error {
	var out bytes.Buffer
	var err error
	switch {
	case d.json:
		err = report.WriteJSON(&out, []batch.Result{seen, predicted})
	case len(seen.Rows) > 0:
		err = table.Write(&out, []batch.Result{seen}, d.colour, terminal.Width(stdout))
		out.WriteString(beside(seen.Rows, predicted.Rows, d.seeds, terminal.Width(stdout)))
		if len(seen.Rows) == len(d.policies) {
			out.WriteString(moral(seen.Rows))
		}
	}
	if err == nil {
		_, err = stdout.Write(out.Bytes())
	}
	if err != nil {
		return exit.Failf("standard output: %v", err)
	}
	return nil
}

// moral says in words what the rows show, and where to go from there.
func moral(rows []batch.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nFor the same %s calls", countOf(rows[0], "served"))
	for i, row := range rows {
		switch {
		case i == 0:
			fmt.Fprintf(&b, " %s sent\n%s requests", row.Policy, countOf(row, "sent"))
			continue
		case i == len(rows)-1:
			b.WriteString(" and")
		default:
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s %s", row.Policy, countOf(row, "sent"))
	}
	b.WriteString(`.
Backoff slows down a call that was refused, but each new call begins at full
speed again. adaptive keeps one pace for all workers of a process, and finds it
by being refused now and then; adaptive-informed reads how much remains, and
slows down before it is refused.

To go on, with hours of traffic in seconds:
  throttle sim dynamodb                    when the capacity changes
  throttle sim emr-shared                  when others come and share it
  throttle sim heroku -html report.html    a published benchmark, in charts
`)
	return b.String()
}

func countOf(row batch.Row, measure string) string {
	return fmt.Sprintf("%.0f", row.Summary.Stats[measures.At(measure)].V.Median)
}
