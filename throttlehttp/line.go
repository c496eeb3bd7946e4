package throttlehttp

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle"
)

// errOutdated is of a call that was not sent, as the server refuses a scope that was
// not known when it entered its line.
var errOutdated = errors.New("throttlehttp: a scope that refuses was learnt while the request waited")

// do makes the call at t. Answers to other requests may name scopes while it is in
// line: if one of them refused, it goes in line once more, for these too, before it
// is sent. So a refusal also stops the requests that wait already. Its turn is lost,
// as it would have been to a refusal. Not twice, as a server may name another scope
// in each answer.
func (c *call) do(t *throttle.Throttle, asked []throttle.Need) error {
	began := time.Now()
	err := t.DoResult(c.options(c.req.Context(), asked), func(ctx context.Context) throttle.Result {
		if c.tries == 0 && c.outdated() {
			return throttle.Result{Err: errOutdated}
		}
		return c.try(ctx)
	})
	if err != errOutdated {
		return err
	}
	return t.DoResult(c.options(waited(c.req.Context(), t, time.Since(began)), asked), c.try)
}

// outdated reports whether the server refuses a scope of c that was learnt since it
// entered its line.
func (c *call) outdated() bool {
	known := c.needs
	c.learnt()
	now := time.Now()
	for _, n := range c.needs[len(known):] {
		if c.splits.refuses(now, n.Scope) {
			return true
		}
	}
	c.needs = known
	return false
}

// waited returns ctx with a MaxWait that is shorter by what a call has waited at t
// already.
func waited(ctx context.Context, t *throttle.Throttle, already time.Duration) context.Context {
	opts := throttle.OptionsOf(ctx)
	most := cmp.Or(opts.MaxWait, t.MaxWait, time.Hour) // the last as in a Throttle
	if most < 0 {
		return ctx
	}
	opts.MaxWait = max(most-already, 1)
	return throttle.WithOptions(ctx, opts)
}
