package admit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Log returns a Control.OnEvent that writes to l: refusals as warnings,
// failures of the Store as errors, refusals by shadow rules, and those that the
// kill switch of the rules prevents, at level info; at most perSecond records a second for each rule and reason. The next record of
// that rule and reason says how many were left out. It writes no key, only its
// KeyID, and nothing that callers sent. It writes before Begin returns: where the
// Handler of l blocks, as on a pipe that is full, so do refusals. It is safe for
// concurrent use.
func Log(l *slog.Logger, perSecond int) func(Event) {
	w := &logger{to: l, most: limit.Limit{Count: int64(max(perSecond, 1)), Period: time.Second}}
	return w.on
}

type logger struct {
	to   *slog.Logger
	most limit.Limit
	mu   sync.Mutex
	said map[Counted]*said
}

// said is what was written of a rule and reason.
type said struct {
	state limit.State
	left  int64 // out since
}

func (w *logger) on(e Event) {
	reason := e.Reason()
	switch {
	case e.Answer.StoreErr != nil: // by the rules' Away, or the kill switch
		w.write(slog.LevelError, "passed without the store", e.Answer.Rule, &e, e.Answer.StoreErr)
	case e.Answer.Reason == rules.Killed:
		w.write(slog.LevelInfo, "killed: would refuse", e.Answer.Rule, &e, nil)
	case e.Verdict == Admitted || reason == "gone":
	case reason == "undecided":
		w.write(slog.LevelError, "could not decide", e.Answer.Rule, &e, e.Err)
	default:
		w.write(slog.LevelWarn, "refused", e.Answer.Rule, &e, e.Err)
	}
	for _, rule := range e.Answer.Shadow {
		w.write(slog.LevelInfo, "would refuse", rule, &e, nil)
	}
	if e.Answer.ShadowErr != nil {
		w.write(slog.LevelError, "could not ask a shadow rule", "", &e, e.Answer.ShadowErr)
	}
	if e.RefundErr != nil {
		w.write(slog.LevelError, "could not give back", e.Answer.Rule, &e, e.RefundErr)
	}
}

func (w *logger) write(level slog.Level, text, rule string, e *Event, err error) {
	what := Counted{Rule: rule, Reason: text}
	if level == slog.LevelWarn {
		what.Reason = e.Reason()
	}
	left, ok := w.may(what, time.Now())
	if !ok {
		return
	}
	of := []slog.Attr{slog.String("rule", rule)}
	if e.Answer.Version != "" {
		of = append(of, slog.String("version", e.Answer.Version))
	}
	if level == slog.LevelWarn {
		of = append(of, slog.String("reason", what.Reason), slog.String("key", e.KeyID()),
			slog.String("verdict", e.Verdict.String()), slog.Bool("degraded", e.Degraded))
	}
	if err != nil {
		of = append(of, slog.Any("err", err))
	}
	if left > 0 {
		of = append(of, slog.Int64("left_out", left))
	}
	w.to.LogAttrs(context.Background(), level, text, of...)
}

// may reports whether to write, and how many records were left out before.
func (w *logger) may(what Counted, now time.Time) (left int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said == nil {
		w.said = make(map[Counted]*said)
	}
	s := w.said[what]
	if s == nil {
		if len(w.said) >= maxCounts {
			what.Rule = ""
		}
		if s = w.said[what]; s == nil {
			s = new(said)
			w.said[what] = s
		}
	}
	next, d := limit.Take(s.state, now, limit.Ask{Limit: w.most, N: 1})
	s.state = next
	if !d.OK {
		s.left++
		return 0, false
	}
	left, s.left = s.left, 0
	return left, true
}
