package sim

import (
	"context"
	"slices"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scoreboard"
	"github.com/throttle-go/throttle/cmd/throttle/internal/survey"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/sim"
)

// readBoard finds out whether a scoreboard is wanted, and returns the names of
// its scenarios.
func (o *options) readBoard(names []string) ([]string, error) {
	o.board = len(names) > 0 && names[0] == scoreboard.Word
	switch {
	case !o.board && o.md != "":
		return nil, usage.Error("-md: is of a scoreboard; write 'throttle sim scoreboard'")
	case !o.board && slices.Contains(names, scoreboard.Word):
		return nil, usage.Errorf("%s: write it before the scenarios, as in 'throttle sim %s emr'", scoreboard.Word, scoreboard.Word)
	case !o.board && slices.Contains(names, survey.Word):
		return nil, usage.Errorf("%s: write it before all else, as in 'throttle sim %s -cells 20'", survey.Word, survey.Word)
	case !o.board:
		return names, nil
	case o.html != "" || o.svg != "":
		return nil, usage.Error("-html and -svg: not of a scoreboard; leave out the word")
	}
	if names = names[1:]; len(names) == 0 {
		for _, s := range sim.Builtin() {
			names = append(names, s.Name)
		}
	}
	return names, outfile.CheckWritable("-md", o.md)
}

// plan is what is run of a scenario.
func (o *options) plan(s sim.Scenario) (policies []sim.Policy, seeds int) {
	if o.board {
		policies = o.policies
		if scoreboard.Drowns(s) {
			policies = slices.Concat(policies, o.bounded)
		}
		return scoreboard.Plan(s, policies, o.seeds)
	}
	return o.policies, o.seeds
}

// runOne runs one scenario; look is called with how far it is.
func (o *options) runOne(ctx context.Context, s sim.Scenario, look func(batch.Where)) batch.Result {
	policies, seeds := o.plan(s)
	b := batch.New(s, policies, seeds, o.seed, nil)
	b.Look = look
	if o.board {
		b.MaxSent = scoreboard.MaxSent
	}
	return b.Run(ctx)
}
