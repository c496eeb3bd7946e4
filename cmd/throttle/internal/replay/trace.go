package replay

import (
	"fmt"
	"io"
	"time"
)

// Bounds of what 'throttle sim' reads, and how a file of it begins.
const (
	mostTrace    = 1_000_000
	longestTrace = 366 * 24 * time.Hour
	traceBegins  = "# arrivals of "
)

// trace keeps when requests came, from the first on.
type trace struct {
	start time.Time
	times []time.Duration
	more  int64 // that do not fit
}

func (t *trace) add(at time.Time) {
	if len(t.times) == 0 {
		t.start = at
	}
	if len(t.times) == mostTrace || at.Sub(t.start) > longestTrace {
		t.more++
		return
	}
	since := at.Sub(t.start)
	if n := len(t.times); n > 0 {
		since = max(since, t.times[n-1]) // a line that came late
	}
	t.times = append(t.times, since)
}

// write writes seconds, one a line.
func (t *trace) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, traceBegins+"%d requests from %s on\n", len(t.times), t.start.UTC().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	for _, at := range t.times {
		if _, err := fmt.Fprintf(w, "%.6f\n", at.Seconds()); err != nil {
			return err
		}
	}
	return nil
}
