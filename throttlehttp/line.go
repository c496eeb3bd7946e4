package throttlehttp

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// errOutdated is of a call that was not sent, as it is subject to a scope that was not
// known when it entered its line.
var errOutdated = errors.New("throttlehttp: a scope was learnt while the request waited")

// do makes the call at t. Answers to other requests may name scopes while it is in line: if
// one of them refused, it goes in line once more, for these too, before it is sent. So a
// refusal also stops the requests that wait already. Its turn is lost, as it would have been
// to a refusal. Where t has no pace of its own there is no turn to lose, and any scope sends it
// back once: of a crowd that starts together all would be sent before what remains counts. Not
// a third time, as a server may name another scope in each answer.
func (c *call) do(t *throttle.Throttle, asked []throttle.Need) error {
	began := time.Now()
	ctx := c.options(c.req.Context(), asked)
	for times := 0; ; times++ {
		err := t.DoResult(ctx, func(ctx context.Context) throttle.Result {
			if c.tries == 0 && times < mostAgain && c.outdated(t, times == 0) {
				return throttle.Result{Report: pace.Report{Verdict: pace.Ignored}, Err: errOutdated}
			}
			return c.try(ctx)
		})
		if err != errOutdated {
			return err
		}
		again, stop := waited(c.req.Context(), t, time.Since(began))
		defer stop()
		ctx = c.options(again, asked)
	}
}

// mostAgain is how often a call goes back in line at most.
const mostAgain = 2

// outdated reports whether a scope was learnt since c entered its line that the server
// refuses, or that is the only one to pace c, if any will do.
func (c *call) outdated(t *throttle.Throttle, any bool) bool {
	known := c.needs
	c.learnt()
	now := time.Now()
	for _, n := range c.needs[len(known):] {
		if c.splits.refuses(now, n.Scope) {
			return true
		}
	}
	if len(c.needs) > len(known) && any && t.Status().Why.Rate == 0 {
		return true
	}
	c.needs = known
	return false
}

// waited returns ctx for a call that has waited at t already: its MaxWait ends the wait when
// it is over, and no sooner. A retry, which it would have been after a refusal, is not given
// up because of what the line of a scope makes it wait, and the forecast of a scope that has
// just been named says little.
func waited(ctx context.Context, t *throttle.Throttle, already time.Duration) (_ context.Context, stop func()) {
	opts := throttle.OptionsOf(ctx)
	most := cmp.Or(opts.MaxWait, t.MaxWait, time.Hour) // the last as in a Throttle
	if most < 0 {
		return ctx, func() {}
	}
	opts.MaxWait = -1
	ctx, cancel := context.WithCancelCause(throttle.WithOptions(ctx, opts))
	timer := time.AfterFunc(most-already, func() { cancel(context.DeadlineExceeded) })
	return patient{ctx}, func() {
		timer.Stop()
		cancel(nil)
	}
}

// patient is the context of a wait that ends by itself, as a deadline would end it that
// nothing foresees.
type patient struct{ context.Context }

func (p patient) Err() error {
	if err := p.Context.Err(); err == nil || context.Cause(p.Context) != context.DeadlineExceeded {
		return err
	}
	return context.DeadlineExceeded
}
