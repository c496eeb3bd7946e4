package throttle

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// EventKind says which step of a call an [Event] reports: Waits, Starts, Ends or
// GivesUp.
type EventKind uint8

const (
	// Waits: the call must wait before a try.
	Waits EventKind = iota + 1
	// Starts: a try starts. Each Starts is followed by one Ends.
	Starts
	// Ends: a try has ended.
	Ends
	// GivesUp: the call returns an [*Error].
	GivesUp
)

// String returns the kind in small letters, such as "gives up".
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

// Event is one event of a call, see [Throttle.OnEvent].
type Event struct {
	// Kind says what happened.
	Kind EventKind
	// At is when it happened.
	At time.Time
	// Wait is, for Waits, how long the wait is forecast to be, [pace.Never] if
	// unknown; for Starts, how long the try waited; for Ends, how long the try
	// took; for GivesUp, the wait that was refused, see [Error].
	Wait time.Duration
	// Try is the number of the try, from 1; for GivesUp the number of tries
	// made.
	Try int
	// Scope is, for Waits and GivesUp, the scope that the call waits for, see
	// [CallOptions.Needs]. If empty, the Throttle's own limit.
	Scope string
	// Why describes, for Waits and GivesUp, the limit that the call waits for
	// there, if that is known.
	Why pace.Why
	// Report is, for Ends, the report of the try.
	Report pace.Report
	// Err is, for Ends, the error of the function; for GivesUp the *Error.
	Err error
}

// because returns why a call waits, and for which scope; empty if neither is
// known.
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

// Log returns a function for [Throttle.OnEvent] that writes to l: calls given up
// as warnings, throttled and failed tries at level info, and all else at level
// debug. What a call waits for is written at level debug too, which [slog.Default]
// leaves out.
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
		attrs = append(attrs, slog.Int("try", e.Try), waitOf(e))
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

// waitOf returns the wait of e for a log.
func waitOf(e Event) slog.Attr {
	if e.Wait == pace.Never {
		return slog.String("wait", "unknown")
	}
	return slog.Duration("wait", e.Wait)
}

// Counter counts events: set [Throttle.OnEvent] to its OnEvent. The zero value
// is ready. One Counter may serve several Throttles. It is safe for concurrent
// use.
type Counter struct {
	waits, waited, starts, gaveUp      atomic.Int64
	served, throttled, failed, ignored atomic.Int64
}

// Stats counts the events of a [Counter] since its first.
type Stats struct {
	// Waits counts the waits, those that ended without a start included.
	Waits int64
	// Waited is the total time that tries waited before their start.
	Waited time.Duration
	// Starts counts the tries started; the next four count the tries ended, by
	// Verdict. The difference is in flight. Ignored are, besides those that say
	// nothing of the service, tries that a transport did not send, as the answer to
	// another call had named a scope that the call must wait for first.
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

// Stats returns the numbers so far. They are read one after the other, while
// other calls change them.
func (c *Counter) Stats() Stats {
	return Stats{
		Waits: c.waits.Load(), Waited: time.Duration(c.waited.Load()), Starts: c.starts.Load(),
		Served: c.served.Load(), Throttled: c.throttled.Load(), Failed: c.failed.Load(), Ignored: c.ignored.Load(),
		GaveUp: c.gaveUp.Load(),
	}
}
