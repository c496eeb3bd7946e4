package throttle

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

func TestEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &pace.Fixed{Rate: 1}, Tries: 3}
		var counters Counter
		var got []Event
		began := time.Now()
		th.OnEvent = func(e Event) {
			if want := time.Now(); !e.At.Equal(want) {
				t.Errorf("%v at %v, want %v", e.Kind, e.At, want)
			}
			_ = th.Waiting() // the lock is not held
			counters.OnEvent(e)
			if e.Kind == Waits && e.Wait >= time.Second && !e.Why.Until.Equal(e.At.Add(e.Wait)) {
				t.Errorf("a wait of %v that the server asked for: until %v", e.Wait, e.Why.Until)
			}
			e.At, e.Why.Until = time.Time{}, time.Time{}
			got = append(got, e)
		}
		tries := 0
		err := th.Do(t.Context(), func(context.Context) error {
			time.Sleep(400 * time.Millisecond)
			if tries++; tries == 2 {
				return Throttled(errBoom, 2*time.Second)
			}
			return Throttled(errBoom, 0)
		})
		const ms = time.Millisecond
		throttled := pace.Report{Verdict: pace.Throttled}
		throttled2 := pace.Report{Verdict: pace.Throttled, After: 2 * time.Second}
		why := pace.Why{Rate: 1, Source: pace.SourceSet}
		want := []Event{
			{Kind: Starts, Try: 1},
			{Kind: Ends, Try: 1, Wait: 400 * ms, Report: throttled, Err: errBoom},
			{Kind: Waits, Try: 2, Wait: 600 * ms, Why: why},
			{Kind: Starts, Try: 2, Wait: 600 * ms},
			{Kind: Ends, Try: 2, Wait: 400 * ms, Report: throttled2, Err: errBoom},
			{Kind: Waits, Try: 3, Wait: 2000 * ms, Why: why},
			{Kind: Starts, Try: 3, Wait: 2000 * ms},
			{Kind: Ends, Try: 3, Wait: 400 * ms, Report: throttled, Err: errBoom},
			{Kind: GivesUp, Try: 3, Err: err},
		}
		if !slices.Equal(got, want) {
			t.Errorf("events\n got  %+v\n want %+v", got, want)
		}
		if got, want := time.Since(began), 3800*ms; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		counts := [...]int64{counters.Stats().Waits, int64(counters.Stats().Waited), counters.Stats().Starts, counters.Stats().Throttled, counters.Stats().GaveUp}
		if want := [...]int64{2, int64(2600 * ms), 3, 3, 1}; counts != want {
			t.Errorf("waits, waited, starts, throttled, gives up: %v, want %v", counts, want)
		}
	})
}

func TestCounter(t *testing.T) {
	var c Counter
	for v, n := range map[pace.Verdict]int{pace.Served: 4, pace.Throttled: 3, pace.Failed: 2, pace.Ignored: 1} {
		for range n {
			c.OnEvent(Event{Kind: Ends, Report: pace.Report{Verdict: v}})
		}
	}
	got := [...]int64{c.Stats().Served, c.Stats().Throttled, c.Stats().Failed, c.Stats().Ignored, c.Stats().Starts}
	if want := [...]int64{4, 3, 2, 1, 0}; got != want {
		t.Errorf("served, throttled, failed, ignored, starts: %v, want %v", got, want)
	}
}

// What starts, ends, also where a hook panics in between.
func TestHookPanicsAsATryStarts(t *testing.T) {
	var counters Counter
	th := &Throttle{Control: new(pace.Fixed), OnEvent: func(e Event) {
		counters.OnEvent(e)
		if e.Kind == Starts {
			panic("here")
		}
	}}
	func() {
		defer func() {
			if p := recover(); p != "here" {
				t.Errorf("panics with %v, want here", p)
			}
		}()
		_ = th.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil })
	}()
	if got, want := counters.Stats(), (Stats{Starts: 1, Ignored: 1}); got != want || th.InFlight() != 0 {
		t.Errorf("%+v, %d in flight; want %+v, none", got, th.InFlight(), want)
	}
}

func TestLog(t *testing.T) {
	var text bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log := Log(slog.New(slog.NewTextHandler(&text, options)))
	log(Event{Kind: Starts, Try: 1})
	log(Event{Kind: Ends, Try: 1, Report: pace.Report{Verdict: pace.Served}})
	log(Event{Kind: Ends, Try: 1, Wait: time.Second, Report: pace.Report{Verdict: pace.Throttled, After: time.Minute}, Err: errBoom})
	log(Event{Kind: GivesUp, Try: 2, Err: &Error{Reason: ErrTries, Err: errBoom, Tries: 2}})
	want := `level=INFO msg="throttle ends" try=1 wait=1s verdict=throttled after=1m0s err=boom
level=WARN msg="throttle gives up" try=2 wait=0s err="throttle: no tries left, after 2 tries, not executed: boom"
`
	if got := text.String(); got != want {
		t.Errorf("log\n%s\nwant\n%s", got, want)
	}
}

// A wait of an unknown length is no number in a log.
func TestLogOfAnUnknownWait(t *testing.T) {
	var b bytes.Buffer
	log := Log(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log(Event{Kind: Waits, Wait: pace.Never, Try: 1})
	if !bytes.Contains(b.Bytes(), []byte("wait=unknown")) {
		t.Errorf("logged %q, want wait=unknown", b.String())
	}
}
