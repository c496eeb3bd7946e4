package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func groupInWords(g sim.Group) string {
	said := words.Plural(g.Processes, "process", "processes")
	if g.Processes > 1 {
		said += " of " + words.Plural(g.Workers, "worker", "workers") + " each"
	} else {
		said += " of " + words.Plural(g.Workers, "worker", "workers")
	}
	add := func(format string, a ...any) { said += fmt.Sprintf(format, a...) }
	if g.Policy != nil {
		add(", always with %s", g.Policy.Name)
	}
	if g.Rival || g.Policy != nil {
		add(" (rivals, not measured)")
	}
	if g.Join > 0 {
		add(", from %s on", words.Lasting(g.Join))
	}
	if g.Every > 0 {
		add(", joining one by one each %s", words.Lasting(g.Every))
	}
	switch {
	case g.Leave > 0 && g.Every > 0:
		add(" and leaving likewise from %s on", words.Lasting(g.Leave))
	case g.Leave > 0:
		add(", leaving at %s", words.Lasting(g.Leave))
	}
	said += arrivalsInWords(g)
	if g.On > 0 {
		add(", calling for %s and then resting for %s", words.Lasting(g.On), words.Lasting(g.Off))
	}
	if g.Work > 0 {
		add(", with %s to make in all", words.Plural(int(g.Work), "call", "calls"))
	}
	return said + callsInWords(g)
}

func arrivalsInWords(g sim.Group) (said string) {
	rate := func(x float64) string { return words.Number(x) + " a second" }
	switch {
	case len(g.Trace) > 0:
		said = fmt.Sprintf(", with %s calls of a trace in turn", words.Whole(int64(len(g.Trace))))
	case len(g.Steps) > 0:
		const most = 4
		var steps []string
		for i, a := range g.Steps {
			if i == most {
				steps = append(steps, fmt.Sprintf("%d more steps", len(g.Steps)-most))
				break
			}
			steps = append(steps, fmt.Sprintf("%s from %s on", rate(a.Rate), words.Lasting(a.At)))
		}
		said = ", each process with calls at random times, " + words.Enumerate(steps)
		if g.Repeat > 0 {
			said += ", and again each " + words.Lasting(g.Repeat)
		}
	case g.Arrivals > 0:
		said = fmt.Sprintf(", each process with %s calls a second, at random times", words.Number(g.Arrivals))
	}
	if g.Batch > 1 {
		said += fmt.Sprintf(", %d at once", g.Batch)
	}
	return said
}

// callsInWords is what is special about the calls of a group.
func callsInWords(g sim.Group) (said string) {
	add := func(format string, a ...any) { said += fmt.Sprintf(format, a...) }
	for _, x := range []struct {
		d    time.Duration
		what string
	}{
		{g.Timeout, "a try times out after %s"},
		{g.Patience, "a call is given up after %s"},
		{g.Deadline, "an answer is of use within %s"},
		{g.Clock, "clocks are off by up to %s"},
	} {
		if x.d > 0 {
			add("; "+x.what, words.Lasting(x.d))
		}
	}
	if c := g.Cost; c.Mean > 0 {
		add("; a call costs %s", lastsInWords(words.Whole(c.Mean), c.Spread, c.Tail))
		if c.Estimate > 0 {
			add(" and is taken to cost %s", words.Whole(c.Estimate))
		}
	}
	if g.Keys > 1 {
		add("; calls are about any of %s keys", words.Whole(int64(g.Keys)))
	}
	if g.Scopes {
		add("; the limits are known apart")
	}
	switch {
	case g.Retries < 0:
		add("; what fails is not retried")
	case g.Retries > 0:
		add("; what fails is retried %s", words.Plural(g.Retries, "time", "times"))
	}
	if b := g.Budget; b != (pace.Budget{}) {
		add("; retries have a budget of %s, and %s more with each call", words.Number(cmp.Or(b.Max, 10)), words.Number(cmp.Or(b.Call, 0.1)))
	}
	return said
}
