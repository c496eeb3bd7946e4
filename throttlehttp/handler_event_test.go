package throttlehttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

func TestHandlerEvents(t *testing.T) {
	lost := errors.New("connection lost")
	var events []admit.Event
	h := &Handler{Control: &admit.Control{Store: &book{now: t0}, OnEvent: func(e admit.Event) { events = append(events, e) }}, Next: hello}
	last := func() admit.Event { return events[len(events)-1] }

	h.Control.Limit, h.Control.Name = limit.Limit{Count: 1, Period: time.Minute}, "few"
	ask(h, "GET")
	first := last()
	ask(h, "GET")
	if e := last(); e.Reason() != "over" || e.Answer.Rule != "few" || Status(e.Verdict) != 429 || e.RetryAfter != time.Minute || len(e.KeyID()) != 16 || e.KeyID() != first.KeyID() || strings.Contains(e.KeyID(), "192") {
		t.Errorf("event %+v, key %s; want over by few, 429, 1m, the key hashed", e, e.KeyID())
	}
	if first.Reason() != "within" || first.Verdict != admit.Admitted || first.Request.Path != "/" {
		t.Errorf("event %+v, want within", first)
	}
	h.Control.Rules = live(t, `{"version": "v7", "rules": [
		{"name": "few", "key": "address", "limits": "1/min"},
		{"name": "stricter", "shadow": true, "limits": "0/min"}]}`)
	ask(h, "GET")
	if e := last(); e.Reason() != "within" || len(e.Answer.Shadow) != 1 || e.Answer.Version != "v7" || e.KeyID() == first.KeyID() {
		t.Errorf("event %+v, want within by v7, and stricter in shadow", e)
	}
	h.Control.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	ask(h, "GET")
	if e := last(); e.Reason() != "undecided" || !errors.Is(e.Err, lost) || Status(e.Verdict) != 503 {
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
