package runner

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

type tellFunc = func(throttle.Event)

// tally counts what became of calls. It is safe for concurrent use.
type tally struct {
	calls, refused, gaveUp atomic.Int64
	seen                   atomic.Int64 // calls given up after a refusal
}

// onEvent counts an event of a Throttle.
func (t *tally) onEvent(e throttle.Event) {
	switch {
	case e.Kind == throttle.Starts && e.Try == 1:
		t.calls.Add(1)
	case e.Kind == throttle.Ends && e.Report.Verdict == pace.Throttled:
		t.refused.Add(1)
	case e.Kind == throttle.GivesUp:
		t.gaveUp.Add(1)
		if e.Try == 0 {
			t.calls.Add(1)
		}
		if last := (*throttle.Error)(nil); errors.As(e.Err, &last) && throttle.Classify(last.Err).Verdict == pace.Throttled {
			t.seen.Add(1)
		}
	}
}

// String says how many calls were made, tries refused, refusals absorbed by a later try, and
// calls given up.
func (t *tally) String() string {
	if t.calls.Load() == 0 {
		return "no call of -host was made through the proxy; does the program use HTTPS_PROXY? -v says what is refused"
	}
	refused := t.refused.Load()
	return fmt.Sprintf("calls: %d made, %d refused by the API, %d of those absorbed, %d given up", t.calls.Load(), refused, refused-t.seen.Load(), t.gaveUp.Load())
}
