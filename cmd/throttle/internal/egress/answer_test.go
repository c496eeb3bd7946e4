package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// TestJudge: nothing that may have been executed is answered so that a client retries it
// by itself.
func TestJudge(t *testing.T) {
	t0 := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	refused := &throttlehttp.StatusError{Code: 429}
	broken := &throttlehttp.StatusError{Code: 503}
	for _, c := range []struct {
		err  error
		want string // status, reason, Retry-After, may have run
	}{
		{&throttle.Error{Reason: context.DeadlineExceeded, Wait: 1500 * time.Millisecond}, "429 wait 2 false"},
		{&throttle.Error{Reason: context.DeadlineExceeded, Wait: pace.Never}, "429 wait 1 false"},
		{&throttle.Error{Reason: context.DeadlineExceeded}, "429 wait 1 false"},
		{&throttle.Error{Reason: context.DeadlineExceeded, Why: pace.Why{Until: t0.Add(25 * time.Second)}}, "429 wait 25 false"},
		{&throttle.Error{Reason: context.DeadlineExceeded, Wait: time.Minute, Err: refused, Tries: 3}, "429 wait 60 false"},
		{&throttle.Error{Reason: context.DeadlineExceeded, Wait: time.Minute, Err: broken, Tries: 1, MayHaveRun: true}, "504 wait  true"},
		{&throttle.Error{Reason: throttle.ErrTooLate, Wait: time.Second}, "429 wait 1 false"},
		{&throttle.Error{Reason: throttle.ErrQueueFull, Wait: 4 * time.Second}, "503 queue-full 4 false"},
		{&throttle.Error{Reason: throttle.ErrBudget, Err: broken, MayHaveRun: true}, "503 retry-budget  true"},
		{&throttle.Error{Reason: throttle.ErrTries, Err: errors.New("connection refused"), Tries: 1}, "502 unreachable  false"},
		{&throttle.Error{Reason: throttle.ErrTries, Err: os.ErrDeadlineExceeded, MayHaveRun: true}, "504 timeout  true"},
		{&throttle.Error{Reason: throttle.ErrTries, Err: fmt.Errorf("dial: %w", &throttle.Error{Reason: errPrivate})}, "502 private-address  false"},
		{&throttle.Error{Reason: errEnding}, "503 ending 1 false"},
		{&throttle.Error{Reason: errEnding, MayHaveRun: true}, "504 ending  true"},
		{errors.New("the upstream switches protocols"), "502 unreachable  true"},
	} {
		w := httptest.NewRecorder()
		judge(t0, "api", c.err).write(w)
		h := w.Header()
		if got := fmt.Sprint(w.Code, " ", h.Get(generated), " ", h.Get("Retry-After"), " ", h.Get(mayHaveRun)); got != c.want {
			t.Errorf("judge(%v) = %s, want %s", c.err, got, c.want)
		}
	}
}

func TestOptionsOf(t *testing.T) {
	for _, c := range []struct {
		wait, priority string
		want           string
	}{
		{"", "", "1m0s unknown"},
		{"5s", "high", "5s high"},
		{"2m", "low", "1m0s low"},
		{"0s", "", "1ns unknown"},
		{"5", "", "refused"},
		{"-5s", "", "refused"},
		{"", "urgent", "refused"},
	} {
		h := http.Header{}
		if c.wait != "" {
			h.Set(waitField, c.wait)
		}
		if c.priority != "" {
			h.Set(priorityField, c.priority)
		}
		o, no := optionsOf(h, time.Minute)
		got := fmt.Sprint(o.MaxWait, " ", o.Priority)
		if no != nil {
			got = "refused"
		}
		if got != c.want {
			t.Errorf("optionsOf(%v) = %s, want %s", h, got, c.want)
		}
	}
}

// TestNoStatus: an answer whose status net/http cannot pass on is one of the proxy.
func TestNoStatus(t *testing.T) {
	e := before(t, API{}, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n")
	})
	if a := e.send("GET", "/api/", nil); a.StatusCode != 502 || a.mark() != "unreachable" || !strings.Contains(a.body, "the status 000, which is none") {
		t.Errorf("answered %d %q %s, want 502", a.StatusCode, a.mark(), a.body)
	}
}
