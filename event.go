package throttle

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// EventKind is what happened to a call.
type EventKind uint8

const (
	// Waits is a call that must wait before a try.
	Waits EventKind = iota + 1
	// Starts is the start of a try. Every Starts is followed by an Ends.
	Starts
	// Ends is the end of a try.
	Ends
	// GivesUp is a call that returns an [*Error].
	GivesUp
)

func (k EventKind) String() string {
	switch k {
	case Waits:
		return "waits"
	case Starts:
		return "starts"
	case Ends:
		return "ends"
	case GivesUp:
		return "gives up"
	}
	return "unknown"
}

// Event is told to [Throttle.OnEvent].
type Event struct {
	Kind EventKind
	At   time.Time
	// Wait is, for Waits, how long it is foreseen to be, [pace.Never] if
	// unknown; for Starts how long it was; for Ends how long the try took; for
	// GivesUp the wait that was refused, see [Error].
	Wait time.Duration
	// Try is which try this is about, 1 for the first; for GivesUp how many
	// were made.
	Try int
	// Scope is, for Waits and GivesUp, the one that makes it wait, see
	// [CallOptions.Needs]; empty: the Throttle's own limit.
	Scope string
	// Why is, for Waits and GivesUp, what is waited for there, if that is known.
	Why pace.Why
	// Report is, for Ends, what the try reported.
	Report pace.Report
	// Err is, for Ends, the error of the function; for GivesUp the *Error.
	Err error
}

// because is why, and of which scope, in some words; empty if neither is known.
func because(scope string, why pace.Why) string {
	text := why.String()
	switch {
	case scope == "":
		return text
	case text == "":
		return "scope " + scope
	}
	return "scope " + scope + ", " + text
}

// Log is an [Throttle.OnEvent] that writes to l: what is given up as a warning,
// throttled and failed tries as information, all else for debugging.
func Log(l *slog.Logger) func(Event) {
	return func(e Event) {
		level := slog.LevelDebug
		switch {
		case e.Kind == GivesUp:
			level = slog.LevelWarn
		case e.Report.Verdict == pace.Throttled || e.Report.Verdict == pace.Failed:
			level = slog.LevelInfo
		}
		ctx := context.Background()
		if !l.Enabled(ctx, level) {
			return
		}
		attrs := make([]slog.Attr, 0, 6)
		attrs = append(attrs, slog.Int("try", e.Try), slog.Duration("wait", e.Wait))
		if e.Kind == Ends {
			attrs = append(attrs, slog.String("verdict", e.Report.Verdict.String()))
		}
		if e.Report.After > 0 {
			attrs = append(attrs, slog.Duration("after", e.Report.After))
		}
		if why := because(e.Scope, e.Why); why != "" {
			attrs = append(attrs, slog.String("why", why))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("err", e.Err))
		}
		l.LogAttrs(ctx, level, "throttle "+e.Kind.String(), attrs...)
	}
}

// Counter counts events: set [Throttle.OnEvent] to its OnEvent. The zero value is
// ready. One may serve several Throttles, and is safe for concurrent use.
type Counter struct {
	waits, waited, starts, gaveUp      atomic.Int64
	served, throttled, failed, ignored atomic.Int64
}

// Stats are what a [Counter] has counted since its first event.
type Stats struct {
	// Waits counts the waits, and Waited is how long all tries waited together
	// before their start.
	Waits  int64
	Waited time.Duration
	// Starts counts the tries, and the next four their ends, by Verdict. What is
	// in flight has started and not ended.
	Starts, Served, Throttled, Failed, Ignored int64
	// GaveUp counts the calls that returned an [*Error].
	GaveUp int64
}

// OnEvent counts e.
func (c *Counter) OnEvent(e Event) {
	switch e.Kind {
	case Waits:
		c.waits.Add(1)
	case Starts:
		c.starts.Add(1)
		c.waited.Add(int64(e.Wait))
	case Ends:
		c.ended(e.Report.Verdict)
	case GivesUp:
		c.gaveUp.Add(1)
	}
}

func (c *Counter) ended(v pace.Verdict) {
	switch v {
	case pace.Served:
		c.served.Add(1)
	case pace.Throttled:
		c.throttled.Add(1)
	case pace.Failed:
		c.failed.Add(1)
	default:
		c.ignored.Add(1)
	}
}

// Stats returns what was counted so far. The numbers are read one after the other,
// while others count.
func (c *Counter) Stats() Stats {
	return Stats{
		Waits: c.waits.Load(), Waited: time.Duration(c.waited.Load()), Starts: c.starts.Load(),
		Served: c.served.Load(), Throttled: c.throttled.Load(), Failed: c.failed.Load(), Ignored: c.ignored.Load(),
		GaveUp: c.gaveUp.Load(),
	}
}
