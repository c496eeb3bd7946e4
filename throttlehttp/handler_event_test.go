package throttlehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

func TestHandlerEvents(t *testing.T) {
	lost := errors.New("connection lost")
	var events []Event
	h := &Handler{Store: &book{now: t0}, Next: hello, OnEvent: func(e Event) { events = append(events, e) }}
	last := func() Event { return events[len(events)-1] }

	h.Limit, h.Name, h.Key = limit.Limit{Count: 1, Period: time.Minute}, "few", RemoteIP
	ask(h, "GET")
	first := last()
	ask(h, "GET")
	if e := last(); e.Reason() != "over" || e.Answer.Rule != "few" || e.Status != 429 || e.RetryAfter != time.Minute || len(e.KeyID()) != 16 || e.KeyID() != first.KeyID() || strings.Contains(e.KeyID(), "192") {
		t.Errorf("event %+v, key %s; want over by few, 429, 1m, the key hashed", e, e.KeyID())
	}
	if first.Reason() != "within" || first.Status != 0 || first.Request == nil {
		t.Errorf("event %+v, want within", first)
	}
	h.Rules = live(t, `{"version": "v7", "rules": [
		{"name": "few", "key": "address", "limits": "1/min"},
		{"name": "stricter", "shadow": true, "limits": "0/min"}]}`)
	ask(h, "GET")
	if e := last(); e.Reason() != "within" || len(e.Answer.Shadow) != 1 || e.Answer.Version != "v7" || e.KeyID() == first.KeyID() {
		t.Errorf("event %+v, want within by v7, and stricter in shadow", e)
	}
	h.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	ask(h, "GET")
	if e := last(); e.Reason() != "undecided" || !errors.Is(e.Err, lost) || e.Status != 503 {
		t.Errorf("event %+v, want undecided, 503 and the error", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask(h, "GET", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if e := last(); e.Reason() != "gone" {
		t.Errorf("event %+v, want gone", e)
	}
	if len(events) != 5 {
		t.Errorf("%d events, want one for each of 5 requests", len(events))
	}
}

func TestCounts(t *testing.T) {
	var c Counter
	h := &Handler{Store: &book{now: t0}, Next: hello, OnEvent: c.OnEvent, Rules: live(t, `{"rules": [
		{"name": "each", "key": "header:X-Key", "limits": "1/min"},
		{"name": "stricter", "shadow": true, "limits": "1/min"}]}`)}
	for i := range 1000 { // hostile keys
		for range 2 {
			ask(h, "GET", with("X-Key", fmt.Sprint(i)))
		}
	}
	want := map[Counted]int64{{Rule: "each", Reason: "within"}: 1000, {Rule: "each", Reason: "over"}: 1000, {Rule: "stricter", Reason: "shadow"}: 999}
	if got := c.Stats(); !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	for i := range maxCounts + 100 {
		c.OnEvent(Event{Answer: rules.Answer{Rule: fmt.Sprint("rule-", i)}})
	}
	c.OnEvent(Event{Answer: rules.Answer{Rule: "each", Reason: rules.Over, ShadowErr: errors.New("lost")}, RefundErr: errors.New("lost")})
	all := c.Stats()
	if n := len(all); n > maxCounts+5 || all[Counted{Rule: "each", Reason: "over"}] != 1001 || all[Counted{Reason: "unlimited"}] != 103 {
		t.Errorf("%d counts, %d and %d; want %d, what is new under an empty rule", n, all[Counted{Rule: "each", Reason: "over"}], all[Counted{Reason: "unlimited"}], maxCounts)
	}
	if all[Counted{Reason: "shadow-error"}] != 1 || all[Counted{Reason: "refund-error"}] != 1 {
		t.Errorf("counts %v, want one error of each", len(all))
	}
}

// A flood of refusals is a few records a second, which say how many they stand for.
func TestLogCannotBeFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		logs := slog.New(slog.NewTextHandler(&text, nil))
		h := &Handler{
			Limit: limit.Limit{Count: 1, Period: time.Hour}, Name: "each", OnEvent: Log(logs, 2),
			Key: func(r *http.Request) string { return r.Header.Get("X-Key") },
		}
		for i := range 3000 { // 1000 a second for 3 s, under keys of the caller's choice
			for range 2 {
				ask(h, "GET", with("X-Key", fmt.Sprintf("hostile\nkey=%d", i)))
			}
			time.Sleep(time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		stood := len(lines)
		for _, line := range lines {
			var n int
			if _, after, found := strings.Cut(line, "left_out="); found {
				fmt.Sscan(after, &n)
			}
			stood += n
			if !strings.Contains(line, "level=WARN msg=refused rule=each") || strings.Contains(line, "hostile") {
				t.Errorf("record %q, want refused by each, and nothing of the caller's", line)
			}
		}
		if len(lines) < 6 || len(lines) > 8 || stood < 2400 || stood > 3000 {
			t.Errorf("%d records for %d refusals, want 2 at once and 2 a second for all", len(lines), stood)
		}
	})
}

// What is remembered for the log is bounded, too.
func TestLogRemembersLittle(t *testing.T) {
	w := &logger{most: limit.Limit{Count: 1, Period: time.Second}}
	for i := range maxCounts + 100 {
		_, ok := w.may(Counted{Rule: fmt.Sprint("rule-", i), Reason: "over"}, t0)
		if want := i <= maxCounts; ok != want { // all that is new is one
			t.Fatalf("rule %d may be logged: %t, want %t", i, ok, want)
		}
	}
	if n := len(w.said); n != maxCounts+1 {
		t.Errorf("%d are remembered, want %d", n, maxCounts+1)
	}
}

func TestLogLevels(t *testing.T) {
	var text bytes.Buffer
	logs := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	on := Log(logs, 10)
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("connection lost")
	on(Event{Request: r, Answer: rules.Answer{Rule: "a", OK: true}})
	on(Event{Request: r, Answer: rules.Answer{Rule: "a", OK: true, Shadow: []string{"b"}, ShadowErr: lost}})
	on(Event{Request: r, Answer: rules.Answer{Version: "v7"}, Err: lost, Status: 503})
	on(Event{Request: r, Answer: rules.Answer{Rule: "a", OK: true}, RefundErr: lost})
	want := "level=INFO msg=\"would refuse\" rule=b\n" +
		"level=ERROR msg=\"could not ask a shadow rule\" rule=\"\" err=\"connection lost\"\n" +
		"level=ERROR msg=\"could not decide\" rule=\"\" version=v7 err=\"connection lost\"\n" +
		"level=ERROR msg=\"could not give back\" rule=a err=\"connection lost\"\n"
	if got := text.String(); got != want {
		t.Errorf("records\n%swant\n%s", got, want)
	}
}
