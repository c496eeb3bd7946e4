// Package find is the command 'throttle find': it finds the breakpoint (knee) of a
// service by a load test, and the limit to put in front of it. Package knee
// decides what to try, package loadgen sends it.
package find

import (
	"context"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/probe"
	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle find finds the load that a service bears: its breakpoint, or knee.

Usage: throttle find [flags] URL
       throttle find [flags] -- COMMAND [ARGUMENT...]
       throttle find -limit URL, or -observe FILE: which rate limiter is there;
                     see 'throttle find -limit -h'

It sends requests at a rate that it raises until the objective fails, narrows
down the highest rate at which it holds, with a 90 % interval, then pushes the
service past it and back, to see whether and when it recovers. Requests start by
the clock, whether or not earlier ones are answered (an open-loop load test), and
latency counts from when a request was due: a stall is not hidden. 2xx is good,
429 and 503 are refusals, anything else is a failure; redirects are not followed.
A COMMAND is good if it exits with 0, refused with 75.

It prints the knee, the curve, the concurrency by Little's law, and a limit to set.
Load only what you may: it asks before it sends to anything but this machine.

Objective:
  -p99 D          99 % of the answers come within D, default 250ms; 0 for no bound
  -errors SHARE   at most so many fail or are refused, default 0.1%

Search:
  -concurrency    search for the requests in flight instead of the rate
  -from X         begin with so many requests a second, or in flight (10, or 1)
  -most X         never offer more than this (100,000 a second, or 4,096)
  -requests N     send at most so many requests (1,000,000)
  -failures N     end after so many failures and refusals (a tenth of -requests)
  -for D          end after so long (10m)
  -recovery D     watch so long for the recovery (30s); 0 to never push it past
                  the knee
  -at-once N      bound the requests in flight (10,000; 256 for a command); those
                  due beyond it are dropped and counted
  -timeout D      how long one answer may take (four times -p99, at least 1s)
  -even           send at even distances, not as a Poisson process
  -seed K         draws when requests start, default 1

Request:
  -method M       GET if left out, or POST with -d
  -H FIELD        a header field 'Name: value'; may be repeated
  -d DATA         a body, or @FILE
  -insecure       accept any certificate
  -yes            do not ask before sending to another machine

Output:
  -head-room SHARE
                  how far below the knee the recommended limit is, default 20%
  -o FILE         the recommended limit as a file of rules, for the -rules of
                  'throttle gateway'
  -html FILE      a page with latency and goodput against offered load
  -scenario FILE  a service with the same curve, for 'throttle sim'
  -json           print JSON

A FILE of - is standard output. Exit codes: 0 found, 1 failed or interrupted, 2
wrong usage or input, 3 not found within the bounds, or not to be trusted.

Examples:
  throttle find http://127.0.0.1:3000/
  throttle find -p99 100ms -errors 1% -html knee.html -o rules.yaml http://127.0.0.1:3000/
  throttle find -concurrency -- ./query.sh
`

// Run finds the knee of a service.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if probe.Wanted(args) {
		return probe.Run(ctx, args, stdin, stdout, stderr)
	}
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	if err := outfile.Check(o.json, o.reads, o.outputs()...); err != nil {
		return err
	}
	if err := o.consent(stdin, stderr); err != nil {
		return err
	}
	target, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer target.close()
	h := hunt{options: o, show: terminal.Progress(stderr)}
	h.run(ctx, target)
	h.show("")
	f := &findings{hunt: &h, Result: h.result()}
	switch err := f.report(stdout); {
	case err != nil && ctx.Err() != nil: // an interrupt is no verdict on the service
		return exit.Failf("%v", err)
	case err != nil:
		return err
	}
	return f.verdict(ctx)
}

// verdict is what the exit code says.
func (f *findings) verdict(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return exit.Failf("find: interrupted after %s", words.Plural(f.Spent.Trials, "trial", "trials"))
	case f.Stop == knee.Found && f.Doubt == "", f.Stop == knee.NoMore && f.Doubt == "":
		return nil
	}
	return exit.Assertion("find: " + f.why())
}
