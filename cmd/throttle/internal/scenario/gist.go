package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// Gist says in a line what a scenario is.
func Gist(s sim.Scenario) string {
	parts := append(serverGist(s.Server), fmt.Sprintf("latency %s", words.Short(s.Network.Latency)))
	for i, g := range s.Clients {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d more groups", len(s.Clients)-i))
			break
		}
		parts = append(parts, groupGist(g))
	}
	var ends []string
	if s.Stop.Remaining.OK {
		ends = append(ends, fmt.Sprintf("%d remain", s.Stop.Remaining.V))
	}
	if s.Stop.Sent > 0 {
		ends = append(ends, fmt.Sprintf("%d are answered", s.Stop.Sent))
	}
	if len(ends) > 0 {
		parts = append(parts, "until "+strings.Join(ends, " or "))
	}
	if s.Duration > 0 && s.Duration < maxTime {
		parts = append(parts, words.Short(s.Duration))
	}
	return strings.Join(parts, "; ")
}

// Settings says which policies have other settings than their own in s.
func Settings(s sim.Scenario) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		all = append(all, fmt.Sprintf("%s is %[1]s(%s)", name, s.Settings[name]))
	}
	return all
}

func serverGist(v sim.Server) []string {
	l := v.Limit
	switch {
	case len(v.Gap) > 0:
		return []string{fmt.Sprintf("serves what comes over %s after the one before", words.Short(v.Gap[0].Least))}
	case l.Unlimited():
		return append([]string{"no limit" + downGist(0, v.Down)}, moreGist(v)...)
	}
	text := quotaGist(sim.Quota{Limit: l, By: v.By, Costs: v.Costs})
	if v.Queue > 0 {
		text += ", " + queueGist(v.Queue)
	}
	if v.Start.OK {
		text += fmt.Sprintf(", %d at the start", v.Start.V)
	}
	text += downGist(0, v.Down)
	down := v.Down
	for i, c := range v.Changes {
		if i == 3 {
			text += ", and on"
			break
		}
		text += fmt.Sprintf(", %s at %s", rateGist(l.Kind, c.Count, c.Period), words.Short(c.At)) + downGist(down, c.Down)
		down = c.Down
	}
	if v.Scale.Every > 0 {
		text += fmt.Sprintf(", scaled to load from %d/s to %d/s", v.Scale.Min, v.Scale.Max)
	}
	return append([]string{text}, moreGist(v)...)
}

func quotaGist(q sim.Quota) string {
	text := fmt.Sprintf("%s of %s", q.Limit.Kind, rateGist(q.Limit.Kind, q.Limit.Count, q.Limit.Period))
	if q.Limit.Kind == limit.TokenBucket {
		text += fmt.Sprintf(", burst %d", cmp.Or(q.Limit.Burst, q.Limit.Count))
	}
	if q.Costs {
		text += ", of cost"
	}
	return text + [...]string{"", " for each process", " for each key"}[q.By]
}

// downGist is the share of a service that is down, and was before.
func downGist(before, now float64) string {
	switch {
	case now > 0:
		return fmt.Sprintf(" with %s down", percent(now))
	case before > 0:
		return " with all up"
	}
	return ""
}

// moreGist is what a server has besides a limit.
func moreGist(v sim.Server) (parts []string) {
	for _, q := range v.More {
		parts = append(parts, quotaGist(q))
	}
	if v.Nodes > 1 {
		parts = append(parts, fmt.Sprintf("on %d nodes", v.Nodes))
	}
	return append(parts, serviceGist(v.Service)...)
}

// boundless is a queue that no run fills.
const boundless = 1 << 30

// queueGist says how many wait in the server.
func queueGist(n int64) string {
	if n < 0 || n >= boundless {
		return "the others wait"
	}
	return fmt.Sprintf("%d more wait", n)
}

func serviceGist(w sim.Service) (parts []string) {
	if w.Time == 0 {
		return nil
	}
	text := fmt.Sprintf("works %s on each", words.Short(w.Time))
	if w.AtOnce > 0 {
		text += fmt.Sprintf(", %d at once, %s", w.AtOnce, queueGist(int64(w.Queue)))
	}
	switch {
	case w.Batch > 1:
		text += fmt.Sprintf(" and %s for each of a batch of up to %d", words.Short(w.Each), w.Batch)
	case w.Each > 0:
		text += fmt.Sprintf(" and %s for each in work", words.Short(w.Each))
	}
	parts = append(parts, text)
	if w.Slow.Share > 0 {
		parts = append(parts, fmt.Sprintf("%.3g%% of it %g times as slow", 100*w.Slow.Share, w.Slow.Times))
	}
	if w.Pause.Every > 0 {
		parts = append(parts, fmt.Sprintf("stops %s every %s", words.Short(w.Pause.Length), words.Short(w.Pause.Every)))
	}
	for _, s := range w.Speeds {
		speed := fmt.Sprintf("%g times as slow", s.Times)
		if s.Times == 1 {
			speed = "at its own speed"
		}
		parts = append(parts, fmt.Sprintf("%s from %s", speed, words.Short(s.At)))
	}
	return parts
}

func groupGist(g sim.Group) string {
	text := fmt.Sprintf("%d×%d workers", g.Processes, g.Workers)
	if g.Policy != nil {
		text += " of " + g.Policy.Name
	}
	if g.Join > 0 {
		text += " at " + words.Short(g.Join)
	}
	if g.Every > 0 {
		text += ", one each " + words.Short(g.Every)
	}
	if g.Work > 0 {
		text += ", " + calls(g.Work)
	}
	if g.Arrivals > 0 {
		text += fmt.Sprintf(", %g calls/s arrive", g.Arrivals)
	}
	if g.Timeout > 0 {
		text += ", timeout " + words.Short(g.Timeout)
	}
	return text
}

// calls writes how many there are, without commas, as a scenario has it.
func calls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// rateGist is a rate as it is written.
func rateGist(kind limit.Kind, count int64, period time.Duration) string {
	unit := words.Short(period)
	switch {
	case period == time.Minute:
		unit = "min"
	case period == time.Second, period == time.Hour:
		unit = strings.TrimPrefix(unit, "1")
	case kind == limit.CalendarWindow:
		unit = strings.NewReplacer(" ", "", "months", "month").Replace(calendarUnit(period))
	}
	return fmt.Sprintf("%d/%s", count, unit)
}
