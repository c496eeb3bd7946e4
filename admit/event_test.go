package admit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

func TestCounts(t *testing.T) {
	var c Counter
	compiled, err := rules.Parse([]byte(`{"rules": [
		{"name": "each", "key": "client", "limits": "1/min"},
		{"name": "stricter", "shadow": true, "limits": "1/min"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	control := Control{OnEvent: c.OnEvent, Rules: new(rules.Live)}
	control.Rules.Swap(compiled)
	for i := range 1000 { // hostile keys
		for range 2 {
			begin(t, &control, fmt.Sprint(i)).Done()
		}
	}
	want := map[Counted]int64{{Rule: "each", Reason: "within"}: 1000, {Rule: "each", Reason: "over"}: 1000, {Rule: "stricter", Reason: "shadow"}: 999}
	if got := c.Stats(); !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	for i := range maxCounts + 100 {
		c.OnEvent(Event{Verdict: Admitted, Answer: rules.Answer{Rule: fmt.Sprint("rule-", i)}})
	}
	c.OnEvent(Event{Verdict: Limited, Answer: rules.Answer{Rule: "each", Reason: rules.Over, ShadowErr: errors.New("lost")}, RefundErr: errors.New("lost")})
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
	bubble.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		logs := slog.New(slog.NewTextHandler(&text, nil))
		control := Control{Limit: limit.Limit{Count: 1, Period: time.Hour}, Name: "each", OnEvent: Log(logs, 2)}
		for i := range 3000 { // 1000 a second for 3 s, under keys of the caller's choice
			for range 2 {
				begin(t, &control, fmt.Sprintf("hostile\nkey=%d", i)).Done()
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
		_, ok := w.may(Counted{Rule: fmt.Sprint("rule-", i), Reason: "over"}, time.Unix(0, 0))
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
	lost := errors.New("connection lost")
	on(Event{Verdict: Admitted, Answer: rules.Answer{Rule: "a", OK: true}})
	on(Event{Verdict: Admitted, Answer: rules.Answer{Rule: "a", OK: true, Shadow: []string{"b"}, ShadowErr: lost}})
	on(Event{Answer: rules.Answer{Version: "v7"}, Err: lost})
	on(Event{Verdict: Admitted, Answer: rules.Answer{Rule: "a", OK: true}, RefundErr: lost})
	want := "level=INFO msg=\"would refuse\" rule=b\n" +
		"level=ERROR msg=\"could not ask a shadow rule\" rule=\"\" err=\"connection lost\"\n" +
		"level=ERROR msg=\"could not decide\" rule=\"\" version=v7 err=\"connection lost\"\n" +
		"level=ERROR msg=\"could not give back\" rule=a err=\"connection lost\"\n"
	if got := text.String(); got != want {
		t.Errorf("records\n%swant\n%s", got, want)
	}
}

// begin has control decide about a request of client.
func begin(t *testing.T, control *Control, client string) *Admission {
	t.Helper()
	a, err := control.Begin(t.Context(), Request{Request: rules.Request{Client: client}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What passes by the kill switch, or without the Store, is admitted, counted by its
// reason and logged; and a Control finds overrides for its rules.
func TestEventsOfRulesThatPass(t *testing.T) {
	compiled, err := rules.Parse([]byte(`{"rules": [
		{"name": "looked", "match": {"paths": "/looked"}, "key": "client", "limits": "1/h", "lookup": true},
		{"name": "pass", "match": {"paths": "/pass"}, "limits": "1/h", "away": "pass"}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	killed := compiled.Set()
	killed.Kill.On = true
	over, err := rules.Compile(killed)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	counts := new(Counter)
	log := Log(slog.New(slog.NewTextHandler(&out, nil)), 100)
	live := new(rules.Live)
	live.Swap(compiled)
	c := &Control{
		Rules: live,
		Override: func(_ context.Context, rule string, key []string) (rules.Override, bool) {
			return rules.Override{Limits: []rules.Limit{{Count: 2, Period: time.Hour}}}, rule == "looked" && key[0] == "acme"
		},
		OnEvent: func(e Event) { counts.OnEvent(e); log(e) },
	}
	begin := func(path string) *Admission {
		t.Helper()
		a, err := c.Begin(t.Context(), Request{Request: rules.Request{Path: path, Client: "acme"}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Done()
		return a
	}
	for i, ok := range []bool{true, true, false} {
		if a := begin("/looked"); a.OK != ok {
			t.Errorf("request %d of a key with a limit of 2 that is looked up: %t, want %t", i, a.OK, ok)
		}
	}
	live.Swap(over)
	if a := begin("/looked"); !a.OK || a.Verdict != Admitted || a.Reason() != "killed" || a.RetryAfter != 0 {
		t.Errorf("with the kill switch on: %v, %s", a.Verdict, a.Reason())
	} else if err := a.GiveBack(); err != nil { // nothing was charged
		t.Error(err)
	}
	live.Swap(compiled)
	if a := begin("/looked"); a.OK {
		t.Error("what was not charged was refunded")
	}
	c = &Control{Rules: live, Store: failing{}, OnEvent: c.OnEvent}
	if a := begin("/pass"); !a.OK || a.Reason() != "away" {
		t.Errorf("without the Store: %v, %s", a.Verdict, a.Reason())
	}
	stats := counts.Stats()
	if stats[Counted{Rule: "looked", Reason: "killed"}] != 1 || stats[Counted{Reason: "away"}] != 1 {
		t.Errorf("counts %v", stats)
	}
	for _, want := range []string{"level=INFO msg=\"killed: would refuse\" rule=looked", "level=ERROR msg=\"passed without the store\" rule=\"\"", "err=\"rules: down\""} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log is\n%swant %s", out.String(), want)
		}
	}
}

// failing is a Store that cannot decide.
type failing struct{}

func (failing) Take(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
	return false, errors.New("down")
}

// The asks of an Event are those that count, also where there are shadow rules alone.
func TestAsksOfShadowRules(t *testing.T) {
	for text, want := range map[string]int{
		`{"rules": [{"name": "tried", "shadow": true, "limits": "9/min"}]}`:                                                  0,
		`{"rules": [{"name": "tried", "shadow": true, "limits": "9/min"}, {"name": "r", "limits": "9/min"}]}`:                1,
		`{"kill": true, "deny": "client=x", "rules": [{"name": "r", "limits": "9/min"}]}`:                                    1,
		`{"rules": [{"name": "r", "in_flight": 9, "shadow": {"limits": "9/min"}}, {"name": "free", "limits": "unlimited"}]}`: 0,
	} {
		compiled, err := rules.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		control := Control{Rules: new(rules.Live)}
		control.Rules.Swap(compiled)
		a := begin(t, &control, "x")
		if len(a.Asks) != want || len(a.Decisions) != want {
			t.Errorf("%s: asks %v, decisions %v; want %d", text, a.Asks, a.Decisions, want)
		}
		a.Done()
	}
}

// A request that could not be decided takes no place of the Shedder, and its Event
// does not say that it may pass, with a Limit as with Rules.
func TestUndecidedIsNotAdmitted(t *testing.T) {
	compiled, err := rules.Parse([]byte(`{"rules": [{"name": "each", "key": "client", "limits": "1/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(compiled)
	away := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errBoom })
	for _, c := range []*Control{{Limit: limit.Limit{Count: 1, Period: time.Hour}}, {Rules: live}} {
		c.Store, c.Shed = away, &Shedder{MaxInFlight: 1}
		var told Event
		c.OnEvent = func(e Event) { told = e }
		a, err := c.Begin(t.Context(), Request{Request: rules.Request{Client: "c"}})
		if n := c.Shed.Stats(); !errors.Is(err, errBoom) || a.OK || n.InFlight != 0 || n.Passed[load.Normal.Index()] != 0 {
			t.Errorf("Begin without a Store = %v, %v with %+v; want %v, and nothing in flight", a.OK, err, n, errBoom)
		}
		if told.Answer.OK || told.Verdict != Undecided {
			t.Errorf("the Event says %v, Answer.OK %v; want undecided, and no answer", told.Verdict, told.Answer.OK)
		}
		a.Done()
	}
}

// A request whose caller has gone is not charged, and one that is given back is
// refunded by shadow rules too.
func TestShadowsAreRefunded(t *testing.T) {
	compiled, err := rules.Parse([]byte(`{"rules": [{"name": "r", "key": "client", "limits": "9/h"},
		{"name": "stricter", "shadow": true, "key": "client", "limits": "1/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := &Control{Rules: new(rules.Live)}
	c.Rules.Swap(compiled)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := c.Begin(gone, Request{Request: rules.Request{Client: "c"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin for a caller that has gone = %v, %v", a.OK, err)
	}
	for range 3 {
		a := begin(t, c, "c")
		if len(a.Answer.Shadow) != 0 || a.Decisions[0].Remaining != 8 || a.GiveBack() != nil {
			t.Errorf("after all was given back, %q would refuse and %d remain; want none, and 8", a.Answer.Shadow, a.Decisions[0].Remaining)
		}
	}
}

// A Control asks the rules of the phase of the request, or else of its own; and what
// is above its limit does not wait for a place.
func TestRulesOfThePhase(t *testing.T) {
	compiled, err := rules.Parse([]byte(`{"rules": [{"name": "early", "phase": "before", "limits": "1/h"},
		{"name": "late", "key": "client", "limits": "1/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(compiled)
	for _, c := range []struct {
		of, request rules.Phase
		want        string
	}{
		{rules.Before, "", "early"}, {rules.After, "", "late"}, {"", rules.Before, "early"}, {rules.Before, rules.After, "late"},
	} {
		control := &Control{Rules: live, Phase: c.of, Shed: &Shedder{MaxInFlight: 1, MaxWait: -1}}
		q := Request{Request: rules.Request{Client: "c", Phase: c.request}}
		first, err := control.Begin(t.Context(), q)
		if err != nil || !first.OK || len(first.Asks) != 1 || first.LimitName(0) != c.want {
			t.Errorf("phase %q of %q: %v by %d limits, %v; want admitted by %s", c.request, c.of, first.Verdict, len(first.Asks), err, c.want)
		}
		if second, err := control.Begin(t.Context(), q); err != nil || second.Verdict != Limited {
			t.Errorf("phase %q of %q: the second is %v, %v; want it limited", c.request, c.of, second.Verdict, err)
		}
		first.Done()
	}
}

// The reasons of a Control with a Limit are those of one with Rules.
func TestReasonsOfALimit(t *testing.T) {
	c := &Control{Limit: limit.Limit{Count: 2, Period: time.Hour}, MaxInFlight: 1}
	first := begin(t, c, "c")
	busy := begin(t, c, "c")
	first.Done()
	second := begin(t, c, "c")
	second.Done()
	over := begin(t, c, "c")
	got := fmt.Sprint(first.Reason(), " ", busy.Reason(), " ", second.Reason(), " ", over.Reason())
	if want := "within busy within over"; got != want {
		t.Errorf("reasons %s, want %s", got, want)
	}
}

// A share is written with three decimals, above zero and at most MaxShare.
func TestShareIsWritten(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		want  string
	}{
		{limit.Limit{Count: 1, Period: 3 * time.Second}, ";throttle-share=0.33"}, // by an estimate of the callers
		{limit.Limit{Count: 1, Period: 24 * time.Hour}, ";throttle-share=0.001"},
		{limit.Limit{Count: 1 << 40, Period: time.Second}, ";throttle-share=1000000000.000"},
	} {
		control := &Control{Limit: c.limit}
		a, err := control.Begin(t.Context(), Request{Key: "k", Caller: "one"})
		_, current := a.RateLimit()
		_, decimals, _ := strings.Cut(current, ".")
		if err != nil || !strings.Contains(current, c.want) || len(decimals) != 3 {
			t.Errorf("RateLimit of %v is %s, %v; want %s in it, with three decimals", c.limit, current, err, c.want)
		}
		a.Done()
	}
}
