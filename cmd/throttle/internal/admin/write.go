package admin

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// reason is what each write says of itself.
type reason struct {
	// Why is why, at most 256 bytes of one line.
	Why string `json:"why"`
	// By is who wants it; if empty, the name of the token or certificate.
	By string `json:"by"`
}

// lasting is a reason of what ends by itself: For a time from now, or Until.
type lasting struct {
	reason
	For   string  `json:"for"`
	Until instant `json:"until"`
}

const (
	maxReason  = 256
	maxLasting = 366 * 24 * time.Hour
)

func (y *reason) check() error {
	for _, f := range []struct{ name, text string }{{"why", y.Why}, {"by", y.By}} {
		switch {
		case len(f.text) > maxReason:
			return failf(http.StatusBadRequest, "%s: longer than %d bytes", f.name, maxReason)
		case strings.ContainsFunc(f.text, turns):
			return failf(http.StatusBadRequest, "%s: must be one line of text, without marks that turn its direction", f.name)
		}
	}
	if strings.TrimSpace(y.Why) == "" {
		return failf(http.StatusBadRequest, `why: is missing; say the reason, as in "why": "launch, ticket 4711"`)
	}
	return nil
}

// turns reports whether r breaks a line, or makes what follows read otherwise than it
// is written, in logs as on the page.
func turns(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// ends returns when it ends.
func (l *lasting) ends(now time.Time) (time.Time, error) {
	until := l.Until.Time
	switch {
	case (l.For == "") == until.IsZero():
		return until, failf(http.StatusBadRequest, `for: write for how long, as "for": "1h", or "until": "%s"`, now.Add(time.Hour).UTC().Format(time.RFC3339))
	case l.For != "":
		d, err := span(l.For)
		if err != nil || d <= 0 {
			return until, failf(http.StatusBadRequest, "for: %.40q must be a time above zero, at most 366d, as 90s, 15m, 1h30m or 3d", l.For)
		}
		if d > maxLasting {
			return until, failf(http.StatusBadRequest, "for: %.40q must be at most 366d; write lasting changes into the rules", l.For)
		}
		return whole(now.Add(d)), nil
	}
	if left := until.Sub(now); left <= 0 || left > maxLasting {
		return until, failf(http.StatusBadRequest, "until: %s must be in the next 366 days; write lasting changes into the rules", until.Format(time.RFC3339))
	}
	return whole(until), nil
}

// whole returns the next whole second: a change never ends before its time.
func whole(t time.Time) time.Time { return t.Add(time.Second - 1).UTC().Truncate(time.Second) }

// ending adds to an answer when the change ends, if it does.
func ending(answer map[string]any, until time.Time) map[string]any {
	if !until.IsZero() {
		answer["until"] = until
	}
	return answer
}

// torn is a number or a unit with a space in it: "1 30m" is no 130 minutes, and "1m s"
// no millisecond.
var torn = regexp.MustCompile(`[\d.] +[\d.]|[^\d. ] +[^\d. ]`)

// span reads a length of time as time.ParseDuration does, with days, as 1d12h, and
// with spaces between its numbers and units.
func span(text string) (time.Duration, error) {
	if torn.MatchString(text) {
		return 0, errors.New("a number or a unit has a space in it")
	}
	text = strings.ReplaceAll(text, " ", "")
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16) // beyond, it is too long in any case
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if more < 0 {
		return 0, errors.New("a part is below zero")
	}
	return d + more, err
}

// audited does a write, answers with what it returns, and records it, done or
// failed.
func (s *server) audited(w http.ResponseWriter, r *http.Request, what, on string, y *reason, do func(context.Context) (any, error)) error {
	who := from(r.Context())
	if y.By == "" {
		y.By = who.name
	}
	if err := y.check(); err != nil {
		return err
	}
	result, err := do(r.Context())
	e := event{At: time.Now().UTC(), What: what, On: on, As: who.name, By: y.By, Why: y.Why, Status: http.StatusOK, Err: text(err)}
	if err != nil {
		e.Status = http.StatusInternalServerError
		if p := (*problem)(nil); errors.As(err, &p) {
			e.Status = p.Status
		}
	}
	s.audit.write(e)
	if err == nil {
		reply(w, result)
	}
	return err
}
