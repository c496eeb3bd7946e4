package probe

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
)

// scenarioBegins is how a scenario begins.
const scenarioBegins = "# Found by 'throttle find -limit'"

// writeScenario writes a scenario with such a server and one process that calls
// it, for 'throttle sim'.
func (f *findings) writeScenario(w io.Writer) error {
	c := f.limiter()
	verdict := fmt.Sprintf("share %s", shareText(c.Share))
	if !f.Decided {
		verdict = "not identified: " + f.Why
	}
	_, err := fmt.Fprintf(w, scenarioBegins+` from %s; %s
# %s
name: %s
duration: %s
%snetwork: {latency: %s, spread: 0.2}
clients:
  - {processes: 1, workers: 4}
`, words.Plural(f.Used, "answer", "answers"), words.OneLine(verdict), words.OneLine(f.rounded().String()),
		scenarioName(f.host), words.Short(f.span()), f.server(), f.network())
	return err
}

// server is the server of the scenario.
func (f *findings) server() string {
	c := f.rounded()
	var b strings.Builder
	b.WriteString("server:\n")
	switch l, ok := f.asLimit(); {
	case c.Kind == fit.Concurrency:
		// Without a queue, more at once are refused.
		fmt.Fprintf(&b, "  limit: none\n  service: {time: %s, at_once: %d}\n", wholeMillis(f.usual), max(c.InFlight, 1))
	case c.Kind == fit.Delay:
		fmt.Fprintf(&b, "  limit: leaky-bucket\n  rate: %s\n  burst: %d\n  queue: 1000\n", rateOf(l), max(l.Burst, 1))
	case !ok:
		b.WriteString("  limit: none\n")
	default:
		fmt.Fprintf(&b, "  limit: %v\n  rate: %s\n", l.Kind, rateOf(l))
		if l.Kind == limit.TokenBucket {
			fmt.Fprintf(&b, "  burst: %d\n", max(l.Burst, 1))
		}
		if phase := c.Phase.Round(time.Millisecond); phase > 0 && c.Period > 0 {
			// The server's clock is ahead by what is left to its next window.
			fmt.Fprintf(&b, "  phase: %s\n", c.Period-min(phase, c.Period))
		}
	}
	if hints := f.hints(); len(hints) > 0 {
		fmt.Fprintf(&b, "  hints: [%s]\n", strings.Join(hints, ", "))
	}
	return b.String()
}

// rateOf is the rate of a limit, as COUNT/PERIOD.
func rateOf(l limit.Limit) string {
	text, _, _ := strings.Cut(limit.Limit{Count: l.Count, Period: max(l.Period.Round(time.Millisecond), time.Millisecond)}.String(), " ")
	return text
}

// hints are what the server says.
func (f *findings) hints() (names []string) {
	for _, p := range f.told {
		if p.CountsRequests() && p.Remaining.OK {
			names = append(names, "remaining")
			break
		}
	}
	if f.wait > 0 {
		names = append(names, "retry-after")
	}
	return names
}

// network is the latency of the scenario: the usual one, less what the server has of
// its own, the work that counts in flight or the wait of a queue.
func (f *findings) network() time.Duration {
	switch f.limiter().Kind {
	case fit.Concurrency:
		return time.Millisecond
	case fit.Delay:
		return wholeMillis(f.least)
	}
	return wholeMillis(f.usual)
}

// wholeMillis is a latency as files have it: a millisecond at least.
func wholeMillis(d time.Duration) time.Duration {
	return min(max(d.Round(time.Millisecond), time.Millisecond), time.Minute)
}

// span is how long the scenario lasts: long enough for many windows.
func (f *findings) span() time.Duration {
	c := f.limiter()
	length := 20 * c.Period
	if c.Rate > 0 {
		length = max(length, time.Duration(min(200/c.Rate, 1e6)*float64(time.Second)))
	}
	return min(max(length.Round(time.Second), 5*time.Minute), 30*24*time.Hour)
}

// scenarioName is a host as a scenario is named.
func scenarioName(host string) string {
	odd := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}
	name := strings.Trim("found-"+strings.Map(odd, host), "-")
	return name[:min(len(name), 64)]
}
