package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// A Fact is one side of a scenario, in sentences.
type Fact struct {
	Name string
	Text []string
}

// Describe says in words what a scenario is.
func Describe(s sim.Scenario) []Fact {
	return []Fact{
		{"Server", serverInWords(s.Server)},
		{"Network", text{networkInWords(s.Network)}},
		{"Clients", clientsInWords(s.Clients)},
		{"Run", append(text{runInWords(s)}, settingsInWords(s)...)},
	}
}

// text is sentences.
type text []string

func (t *text) add(format string, a ...any) { *t = append(*t, fmt.Sprintf(format, a...)) }

func serverInWords(v sim.Server) (t text) {
	l := v.Limit
	switch {
	case len(v.Gap) > 0:
		for i, g := range v.Gap {
			if i == 0 {
				t.add("Serves a request if the one before came more than %s ago.", words.Lasting(g.Least))
				continue
			}
			t.add("From request %s on, %s are enough.", words.Whole(g.From), words.Lasting(g.Least))
		}
	case l.Unlimited():
		t.add("Has no limit.")
	case l.Kind == limit.FixedWindow:
		t.add("Serves %s in each window of %s, windows aligned to the start.", words.Whole(l.Count), words.Lasting(l.Period))
	case l.Kind == limit.SlidingLog:
		t.add("Serves %s in any %s: it keeps a sliding log.", words.Whole(l.Count), words.Lasting(l.Period))
	case l.Count == 0:
		t.add("A token bucket of %s that is never refilled.", words.Whole(l.Burst))
	default:
		t.add("A token bucket: %s come in, and at most %s are kept.", rateInWords(l.Count, l.Period), words.Whole(l.Max()))
	}
	if start := v.Start; start.OK && len(v.Gap) == 0 && l.Kind == limit.TokenBucket && !l.Unlimited() {
		t.add("At the start %s are there.", words.Whole(start.V))
	}
	t = append(t, changesInWords(v)...)
	if v.Errors > 0 {
		t.add("%s of what it admits fails for another reason.", percent(v.Errors))
	}
	return append(t, hintsInWords(v.Hints))
}

func changesInWords(v sim.Server) (t text) {
	const most = 6
	for i, c := range v.Changes {
		if i == most {
			t.add("And %d more changes.", len(v.Changes)-most)
			break
		}
		t.add("From %s on: %s.", words.Lasting(c.At), rateInWords(c.Count, c.Period))
	}
	if a := v.Scale; a.Every > 0 {
		t.add("Every %s its capacity becomes what it served / %s, from %s to %s a second, %s later.",
			words.Lasting(a.Every), words.Number(a.Target), words.Whole(a.Min), words.Whole(a.Max), words.Lasting(a.Delay))
	}
	return t
}

func hintsInWords(h sim.Hints) string {
	var said []string
	for _, hint := range []struct {
		on   bool
		what string
	}{
		{h.Remaining, "how many requests remain"},
		{h.RetryAfter, "when to try again"},
		{h.Reset, "when all is back"},
		{h.Policy, "what the limit is"},
		{h.Share, "what the fair part of a process is"},
	} {
		if hint.on {
			said = append(said, hint.what)
		}
	}
	if len(said) == 0 {
		return "Its answers say nothing about the limit."
	}
	return "Its answers say " + words.Enumerate(said) + "."
}

func networkInWords(n sim.Network) string {
	if n.Spread == 0 {
		return fmt.Sprintf("A call takes %s, half there and half back.", words.Lasting(n.Latency))
	}
	return fmt.Sprintf("A call takes %s ± %s, half there and half back.", words.Lasting(n.Latency), percent(n.Spread))
}

func clientsInWords(groups []sim.Group) (t text) {
	const most = 12
	loops := false
	for i, g := range groups {
		if i == most {
			t.add("And %d more groups.", len(groups)-most)
			break
		}
		t.add("%s.", groupInWords(g))
		loops = loops || g.Arrivals == 0
	}
	if loops {
		t.add("A worker calls again as soon as it has its answer.")
	}
	return t
}

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
	if g.Arrivals > 0 {
		add(", each process with %s calls a second, at random times", words.Number(g.Arrivals))
	}
	if g.On > 0 {
		add(", calling for %s and then resting for %s", words.Lasting(g.On), words.Lasting(g.Off))
	}
	if g.Work > 0 {
		add(", with %s calls to make in all", words.Whole(g.Work))
	}
	return said
}

func runInWords(s sim.Scenario) string {
	var ends []string
	if s.Duration > 0 {
		ends = append(ends, "after "+words.Lasting(s.Duration))
	}
	if s.Stop.Sent > 0 {
		ends = append(ends, "with request "+words.Whole(s.Stop.Sent))
	}
	if s.Stop.Remaining.OK {
		ends = append(ends, "when no more than "+words.Whole(s.Stop.Remaining.V)+" requests remain")
	}
	if len(ends) == 0 || hasWork(s.Clients) {
		ends = append(ends, "when the work is done")
	}
	if len(ends) == 1 {
		return "Ends " + ends[0] + "."
	}
	return "Ends " + strings.Join(ends, ", or ") + ", whichever comes first."
}

// settingsInWords says which policies have other settings than their own.
func settingsInWords(s sim.Scenario) (t text) {
	for _, is := range Settings(s) {
		t.add("Here %s.", is)
	}
	return t
}

// hasWork reports whether work can end the run: all that is measured has some.
func hasWork(groups []sim.Group) bool {
	for _, g := range groups {
		if g.Work == 0 && !g.Rival && g.Policy == nil {
			return false
		}
	}
	return true
}

func rateInWords(count int64, period time.Duration) string {
	if period%time.Second != 0 || period >= 48*time.Hour {
		return words.Whole(count) + " every " + words.Lasting(period)
	}
	name := map[time.Duration]string{time.Second: "a second", time.Minute: "a minute", time.Hour: "an hour", 24 * time.Hour: "a day"}[period]
	if name == "" {
		return words.Whole(count) + " every " + words.Lasting(period)
	}
	return words.Whole(count) + " " + name
}

func percent(share float64) string { return words.Number(100*share) + " %" }
