package rules_test

import (
	"encoding/json"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// FuzzOverlay: no text makes an Overlay panic, on top of rules or trimmed; it is the
// same after being written and read again; and the rules below it are not changed.
func FuzzOverlay(f *testing.F) {
	f.Add(`{"serial": 7, "kill": true, "deny": {"entry": "client=bad", "until": "2026-12-01T12:00:00Z"}, "overrides": {"r": {"key": "acme", "limits": "5/h"}},
		"switches": {"s": {"key": "*", "value": 1.5}}, "log": {"what": "x", "at": "2026-12-01T12:00:00Z", "why": "y", "by": "z"}}`)
	f.Add(`{"set": {"rules": {"name": "r", "key": "client", "limits": "1/s", "shadow": {"limits": "8/s"}}}, "overrides": {"r": {"key": "*", "in_flight": 1}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o, again rules.Overlay
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return
		}
		own := textOf(t, o)
		if err := json.Unmarshal([]byte(own), &again); err != nil || textOf(t, again) != own {
			t.Fatalf("%q is written as %s, and read again as %s, %v", text, own, textOf(t, again), err)
		}
		base := setOf(t, `{"rules": {"name": "r", "key": "client", "limits": "1/h", "overrides": {"key": "acme", "limits": "2/h"}}, "switches": {"name": "s", "value": "a"}}`)
		before := textOf(t, base)
		for _, x := range []rules.Overlay{o, o.Trim(noon)} {
			merged, _ := x.Over(base)
			if c, err := rules.Compile(merged); err == nil {
				ask(t, c, newBook(), rules.Request{Client: "acme", Now: noon})
				c.Switch("s", "acme", noon)
			}
			_ = rules.Diff(base, merged)
		}
		if textOf(t, base) != before || textOf(t, o) != own {
			t.Fatalf("%q changed the rules to %s, or itself to %s", text, textOf(t, base), textOf(t, o))
		}
	})
}
