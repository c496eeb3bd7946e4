package admit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// TestControlLimitsNobody: Rules that were never loaded, and a Limit without a Period, are
// logged, once.
func TestControlLimitsNobody(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	c, err := rules.Parse([]byte(`{"rules": []}`))
	if err != nil {
		t.Fatal(err)
	}
	loaded := new(rules.Live)
	loaded.Swap(c)
	for _, c := range []struct {
		control *Control
		want    string
	}{
		{&Control{Rules: new(rules.Live)}, "call Refresh"},
		{&Control{Limit: limit.Limit{Count: 100}}, "set it, as in time.Minute"},
		{&Control{Limit: limit.Limit{Count: 100, Period: 60}}, "set it, as in time.Minute"},
		{&Control{Rules: loaded}, ""},
		{&Control{Limit: limit.Limit{Count: 100, Period: time.Minute}}, ""},
		{new(Control), ""},
	} {
		out.Reset()
		for range 3 {
			if a, err := c.control.Begin(t.Context(), Request{}); err != nil || !a.OK {
				t.Errorf("%+v: Begin: %+v, %v", c.control, a, err)
			}
		}
		if got := out.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != min(len(c.want), 1) {
			t.Errorf("Limit %v, Rules %v: logged %q, want one line with %q, or none", c.control.Limit, c.control.Rules != nil, got, c.want)
		}
	}
}
