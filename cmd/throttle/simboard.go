package main

import (
	"context"

	"github.com/throttle-go/throttle/sim"
)

// readBoard finds out whether a scoreboard is wanted, and returns the names of
// its scenarios.
func (o *simOptions) readBoard(names []string) ([]string, error) {
	o.board = len(names) > 0 && names[0] == boardWord
	switch {
	case !o.board && o.md != "":
		return nil, usageError("-md: is of a scoreboard; write 'throttle sim scoreboard'")
	case !o.board:
		return names, nil
	case o.html != "" || o.svg != "":
		return nil, usageError("-html and -svg: not of a scoreboard; leave out the word")
	}
	if names = names[1:]; len(names) == 0 {
		for _, s := range sim.Builtin() {
			names = append(names, s.Name)
		}
	}
	return names, checkWritable("-md", o.md)
}

// plan is what is run of a scenario.
func (o *simOptions) plan(s sim.Scenario) (policies []sim.Policy, seeds int) {
	if o.board {
		return boardPlan(s, o.policies, o.seeds)
	}
	return o.policies, o.seeds
}

// runOne runs one scenario.
func (o *simOptions) runOne(ctx context.Context, s sim.Scenario, progress func(done, total int)) scenarioResult {
	policies, seeds := o.plan(s)
	b := newBatch(s, policiesFor(s, policies), seeds, o.seed, progress)
	if o.board {
		b.maxSent = boardMaxSent
	}
	return b.run(ctx)
}
