package admin

import (
	"strings"
	"testing"
	"time"
)

// A body that cannot be read is refused with the name of the field, in words of JSON.
func TestBodiesThatCannotBeRead(t *testing.T) {
	x := instances(t, 1)[0]
	for _, c := range []struct{ call, body, want string }{
		{"PUT raise", `{"rule": 5}`, "rule: must be text, not a number"},
		{"PUT raise", `{"key": {"a": 1}}`, `key: must be text, or a list of texts, as \"key\": [\"acme\"]`},
		{"PUT raise", `{"limits": [5]}`, `limits: must be text, or a list of texts, as \"limits\": [\"100/s burst 20\"]`},
		{"PUT raise", `{"limits": "1/fortnight"}`, `limits: \"1/fortnight\"`},
		{"PUT raise", `{"times": "10"}`, "times: must be a number, not text"},
		{"PUT raise", `{"in_flight": 1.5}`, "in_flight: must be a whole number, not 1.5"},
		{"PUT raise", `{"pattern": 1}`, "pattern: must be true or false, not a number"},
		{"PUT raise", `{"for": 60}`, "for: must be text, not a number"},
		{"PUT raise", `{"why": ["a"]}`, "why: must be text, not a list"},
		{"PUT raise", `{"until": 5}`, `until: must be a time with its zone, as \"until\": \"2026-`},
		{"PUT raise", `{"until": "tomorrow"}`, "until: must be a time with its zone"},
		{"PUT block", `{"entri": "a"}`, `the body: unknown field \"entri\"; the fields are entry, pattern, why, by, for and until`},
		{"PUT kill", `[]`, "the body: must be an object, not a list"},
		{"PUT kill", `true`, "the body: must be an object, not true or false"},
		{"PUT kill", ``, "the body: empty; send a JSON object"},
		{"PUT kill", `{"for": "1h"`, "the body: ends before its JSON object does"},
		{"PUT kill", `{"for": '1h'}`, `the body: not JSON, at byte 9: invalid character '\\''`},
		{"PUT kill", `{} {}`, "the body: there is more than one value"},
		{"PUT switches/a", `{"value": []}`, "value: must be text, a number, true or false"},
		{"POST forgive", `{"key": 5}`, "key: must be text, or a list"},
		{"POST try", `{"header": {"a": 1}}`, "header: must be text, not a number"},
		{"POST try", `{"costs": {"a": "x"}}`, "costs: must be a whole number, not text"},
		{"POST whatif", `{"remove": 1}`, "remove: must be text, not a number"},
		{"PUT rollback", `{"version": 1}`, "version: must be text, not a number"},
		{"POST reload", `"x"`, "the body: must be an object, not text"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		got := x.send(method, "/api/v1/"+path, c.body, "Authorization", "Bearer "+writeSecret, "Content-Type", "application/json")
		if got.status != 400 || !strings.Contains(got.body, c.want) || strings.Contains(got.body, " Go ") || strings.Contains(got.body, "json:") {
			t.Errorf("%s %s: %d %s\nwant %s", c.call, c.body, got.status, got.body, c.want)
		}
	}
}

// One text stands for a list of one, in key and in limits.
func TestOneTextForAList(t *testing.T) {
	x := instances(t, 1)[0]
	x.must("PUT", "/api/v1/raise", because("rule", "per-client", "key", "acme", "limits", "6/h", "for", "1h"))
	if n := x.passes(7, "acme", 0); n != 6 {
		t.Errorf("%d of 7 passed, want 6", n)
	}
	x.must("POST", "/api/v1/forgive", because("rule", "per-client", "key", "acme"))
	if n := x.passes(7, "acme", 0); n != 6 {
		t.Errorf("%d of 7 passed after forgive, want 6", n)
	}
	x.must("DELETE", "/api/v1/raise", because("rule", "per-client", "key", "acme"))
	if o, _ := x.stack.Overlay(); len(o.Overrides["per-client"]) > 0 && o.Overrides["per-client"][0].Until.After(time.Now()) {
		t.Errorf("overlay %+v, want no raise", o)
	}
}

// The answer to a change without an end states none: a zero time would be an end long ago.
func TestAnswersStateEnds(t *testing.T) {
	x := instances(t, 1)[0]
	for _, c := range []struct {
		method, path string
		body         any
		ends         bool
	}{
		{"PUT", "switches/new", because("key", "*", "value", "blue"), false},
		{"PUT", "switches/new", because("key", "*", "value", "blue", "for", "1h"), true},
		{"PUT", "kill", because("for", "1h"), true},
		{"DELETE", "kill", because(), false},
	} {
		got := x.write(c.method, "/api/v1/"+c.path, c.body)
		if got.status != 200 || strings.Contains(got.body, "until") != c.ends || strings.Contains(got.body, "0001-01-01") {
			t.Errorf("%s %s: %d %s, want an end: %t", c.method, c.path, got.status, got.body, c.ends)
		}
	}
}
