package scenario

import (
	"fmt"
	"math"
	"slices"
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

func changesInWords(v sim.Server) (t text) {
	const most = 6
	down := v.Down
	for i, c := range v.Changes {
		if i == most {
			t.add("And %d more changes.", len(v.Changes)-most)
			break
		}
		said := ""
		if c.RetryAfter > 0 {
			said = ", and refusals say to try again in " + words.Lasting(c.RetryAfter)
		}
		switch {
		case c.Down == 0 && down > 0:
			said += ", and all of it works again"
		case c.Down > 0:
			said += ", and " + percent(c.Down) + " of what is admitted comes to a part that is down"
		}
		down = c.Down
		t.add("From %s on: %s%s.", words.Lasting(c.At), rateInWords(v.Limit.Kind, c.Count, c.Period), said)
	}
	if a := v.Scale; a.Every > 0 {
		t.add("Every %s its capacity becomes what it served / %s, from %s to %s a second, %s later.",
			words.Lasting(a.Every), words.Number(a.Target), words.Whole(a.Min), words.Whole(a.Max), words.Lasting(a.Delay))
	}
	return t
}

func networkInWords(n sim.Network) string {
	said := fmt.Sprintf("A call takes %s, half there and half back.", lastsInWords(words.Lasting(n.Latency), n.Spread, n.Tail))
	if n.Loss > 0 {
		said += fmt.Sprintf(" %s of them are lost.", percent(n.Loss))
	}
	return said
}

// lastsInWords is a quantity that varies.
func lastsInWords(middle string, spread, tail float64) string {
	if spread > 0 {
		middle += " ± " + percent(spread)
	}
	if tail > 0 { // 2.326 standard deviations
		middle += fmt.Sprintf(" (one in a hundred %s times as much)", words.Number(math.Round(10*math.Exp(2.326*tail))/10))
	}
	return middle
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
		loops = loops || g.Arrivals == 0 && len(g.Steps)+len(g.Trace) == 0
	}
	if loops {
		t.add("A worker calls again as soon as it has its answer.")
	}
	return t
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

// hasWork reports whether work can end the run: all that is measured has some, or all if
// none is.
func hasWork(groups []sim.Group) bool {
	some := slices.ContainsFunc(groups, measured)
	for _, g := range groups {
		if g.Work == 0 && (measured(g) || !some) {
			return false
		}
	}
	return true
}

// calendarUnit is how long a calendar window is, such as a day or 3 months.
func calendarUnit(period time.Duration) string {
	switch months := period / limit.Month; {
	case months > 1:
		return fmt.Sprintf("%d months", months)
	case months == 1:
		return "month"
	case period == limit.Week:
		return "week"
	case period == 24*time.Hour:
		return "day"
	case period == time.Hour:
		return "hour"
	}
	return "minute"
}

func rateInWords(kind limit.Kind, count int64, period time.Duration) string {
	if kind == limit.CalendarWindow {
		return words.Whole(count) + " in each " + calendarUnit(period)
	}
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
