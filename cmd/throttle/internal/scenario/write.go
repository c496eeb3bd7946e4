package scenario

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// Write writes s as a file that Parse reads, if there is no more to it than to
// the scenarios of a survey, to those of a load test and to the simpler of the
// built-in ones: one limit that counts requests, of all together, without a queue; a
// service that stays as fast as it is; hints that are whole; a network that loses
// nothing; groups that make closed loops, jobs or Poisson arrivals. The rest it
// leaves out.
func Write(w io.Writer, s sim.Scenario) error {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\n", s.Name)
	if s.Duration > 0 {
		fmt.Fprintf(&b, "duration: %v\n", s.Duration)
	}
	writeServer(&b, s.Server)
	fmt.Fprintf(&b, "network: {latency: %v, spread: %v", s.Network.Latency, s.Network.Spread)
	if s.Network.Tail > 0 {
		fmt.Fprintf(&b, ", tail: %v", s.Network.Tail)
	}
	b.WriteString("}\n")
	if stop := s.Stop.Remaining; stop.OK {
		fmt.Fprintf(&b, "stop: {remaining: %d}\n", stop.V)
	}
	b.WriteString("clients:\n")
	for _, g := range s.Clients {
		writeGroup(&b, g)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeServer(b *strings.Builder, v sim.Server) {
	b.WriteString("server:\n")
	if v.Limit.Unlimited() {
		b.WriteString("  limit: none\n")
	} else {
		fmt.Fprintf(b, "  limit: %v\n  rate: %s\n", v.Limit.Kind, rateText(v.Limit.Count, v.Limit.Period))
	}
	if v.Limit.Kind == limit.TokenBucket && v.Limit.Burst > 0 {
		fmt.Fprintf(b, "  burst: %d\n", v.Limit.Burst)
	}
	if v.Start.OK {
		fmt.Fprintf(b, "  start: %d\n", v.Start.V)
	}
	var hints []string
	for _, h := range hintNames(&v.Hints) {
		if *h.is {
			hints = append(hints, h.name)
		}
	}
	if len(hints) > 0 {
		fmt.Fprintf(b, "  hints: [%s]\n", strings.Join(hints, ", "))
	}
	if v.Errors > 0 {
		fmt.Fprintf(b, "  errors: %v\n", v.Errors)
	}
	if v.Plain {
		b.WriteString("  plain: true\n")
	}
	if v.Down > 0 {
		fmt.Fprintf(b, "  down: %v\n", v.Down)
	}
	writeService(b, v.Service)
	if len(v.Changes) > 0 {
		b.WriteString("  changes:\n")
	}
	for _, c := range v.Changes {
		fmt.Fprintf(b, "    - {at: %v, rate: %s", c.At, rateText(c.Count, c.Period))
		if c.RetryAfter > 0 {
			fmt.Fprintf(b, ", retry_after: %v", c.RetryAfter)
		}
		if c.Down > 0 {
			fmt.Fprintf(b, ", down: %v", c.Down)
		}
		b.WriteString("}\n")
	}
}

// writeService writes the work on a request, if there is any.
func writeService(b *strings.Builder, w sim.Service) {
	if w.Time <= 0 {
		return
	}
	fmt.Fprintf(b, "  service: {time: %v", w.Time)
	if w.Spread > 0 {
		fmt.Fprintf(b, ", spread: %v", w.Spread)
	}
	if w.Tail > 0 {
		fmt.Fprintf(b, ", tail: %v", w.Tail)
	}
	if w.AtOnce > 0 {
		fmt.Fprintf(b, ", at_once: %d", w.AtOnce)
	}
	if w.Queue > 0 {
		fmt.Fprintf(b, ", queue: %d", w.Queue)
	}
	if w.Each > 0 {
		fmt.Fprintf(b, ", each: %v", w.Each)
	}
	if w.Batch > 0 {
		fmt.Fprintf(b, ", batch: %d", w.Batch)
	}
	b.WriteString("}\n")
}

// rateText is a rate as limit.ParseRate reads it, its period in milliseconds.
func rateText(count int64, period time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		switch {
		case period == unit.size:
			return fmt.Sprintf("%d/%s", count, unit.name)
		case period%unit.size == 0:
			return fmt.Sprintf("%d/%d%s", count, period/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d/%dms", count, max(1, period.Round(time.Millisecond)/time.Millisecond))
}

// arrivalsText is a rate a second, of which files hold six decimals: of a slow
// one, an hour's.
func arrivalsText(second float64) string {
	unit := "s"
	if second < 1 {
		second, unit = second*3600, "h"
	}
	text := strings.TrimRight(strconv.FormatFloat(second, 'f', 6, 64), "0")
	return strings.TrimSuffix(text, ".") + "/" + unit
}

func writeGroup(b *strings.Builder, g sim.Group) {
	fmt.Fprintf(b, "  - {processes: %d, workers: %d", g.Processes, g.Workers)
	for _, t := range []struct {
		name string
		is   time.Duration
	}{
		{"join", g.Join},
		{"leave", g.Leave},
		{"every", g.Every},
		{"on", g.On},
		{"off", g.Off},
		{"timeout", g.Timeout},
		{"patience", g.Patience},
		{"deadline", g.Deadline},
	} {
		if t.is > 0 {
			fmt.Fprintf(b, ", %s: %v", t.name, t.is)
		}
	}
	if g.Work > 0 {
		fmt.Fprintf(b, ", work: %d", g.Work)
	}
	if g.Retries != 0 {
		fmt.Fprintf(b, ", retries: %d", max(g.Retries, 0))
	}
	if g.Arrivals > 0 {
		fmt.Fprintf(b, ", arrivals: %s", arrivalsText(g.Arrivals))
	}
	if g.Policy != nil {
		fmt.Fprintf(b, ", policy: %q", g.Policy.Name)
	}
	if g.Rival {
		b.WriteString(", rival: true")
	}
	b.WriteString("}\n")
}
