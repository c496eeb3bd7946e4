package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// keyState is GET /api/v1/key.
type keyState struct {
	Rule     string
	Limits   []keyLimit
	Override bool
}

// keyLimit is one limit of it.
type keyLimit struct {
	Limit      string
	KeyID      string `json:"key_id"`
	Max        int64
	Remaining  int64
	RetryAfter *float64 `json:"retry_after"`
	ResetAfter float64  `json:"reset_after"`
	Until      time.Time
}

// Used is the part of a limit that is used, in percent.
func (l keyLimit) Used() int {
	if l.Max < 1 {
		return 100
	}
	return int(100 * (l.Max - min(l.Remaining, l.Max)) / l.Max)
}

// part is a part of a key, and its value.
type part struct{ Name, Value string }

type whoBody struct {
	Rules         []rule
	Rule          rule // the chosen one
	By            string
	Parts         []part
	Asked         bool // for a key
	Key           keyState
	Raise         *override // that holds for the key
	Entry         string    // that blocks the key; empty for a key with a '*'
	Block, Exempt *entry    // of Entry, that hold
	Top           *top
}

// Counted names what the top keys are counted by.
func (b *whoBody) Counted() string {
	switch b.By {
	case "near":
		return "decisions near a limit"
	case "all":
		return "decisions"
	}
	return "refusals"
}

// ID is what logs call the key that was looked up.
func (b *whoBody) ID() string {
	if len(b.Key.Limits) == 0 {
		return ""
	}
	return b.Key.Limits[0].KeyID
}

// Hidden reports whether keys are not shown in the clear.
func (b *whoBody) Hidden() bool {
	return b.Top != nil && len(b.Top.Keys) > 0 && len(b.Top.Keys[0].Key) == 0
}

// Starred reports whether a part of the key has a '*'. Callers choose their names, and
// in the overlay a '*' stands for any text: a change would be one of other keys, too.
func (b *whoBody) Starred() bool {
	return slices.ContainsFunc(b.Parts, func(p part) bool { return strings.Contains(p.Value, "*") })
}

// who is the keys that are refused most, and one key.
func who(p *Page, r *http.Request, f *frame) (any, error) {
	b := &whoBody{By: cmp.Or(r.Form.Get("by"), "refused")}
	var all inUse
	if err := p.Call(r.Context(), "GET", "/api/v1/rules", nil, &all); err != nil {
		return b, err
	}
	b.Rules = all.Rules
	for _, one := range all.Rules {
		if b.Rule.Name == "" && one.Key != "" || one.Name == r.Form.Get("rule") {
			b.Rule = one
		}
	}
	key := r.Form["key"]
	b.split(key)
	b.Asked = b.Asked || len(b.Parts) == 0 && r.Form.Has("rule")
	b.Top = topKeys(p, r, b.Rule.Name, b.By)
	if !b.Asked {
		return b, nil
	}
	b.Raise = raiseOf(&b.Rule, key, f.Now)
	if !b.Starred() {
		b.Entry = entryOf(b.Parts)
		b.Block, b.Exempt = entryIn(all.Deny, b.Entry, f.Now), entryIn(all.Allow, b.Entry, f.Now)
	}
	ask := url.Values{"rule": {b.Rule.Name}, "key": key[:min(len(key), len(b.Parts))]}
	return b, p.Call(r.Context(), "GET", "/api/v1/key?"+ask.Encode(), nil, &b.Key)
}

// split pairs the parts of the key with their values.
func (b *whoBody) split(key []string) {
	for i, name := range b.Rule.Parts() {
		one := part{Name: name}
		if i < len(key) {
			one.Value = key[i]
		}
		b.Parts = append(b.Parts, one)
		b.Asked = b.Asked || one.Value != ""
	}
}

// entryOf is the entry of a deny list for a key, by its first part.
func entryOf(key []part) string {
	switch {
	case len(key) == 0:
		return ""
	case key[0].Name == "address":
		return key[0].Value
	}
	return key[0].Name + "=" + key[0].Value
}

// entryIn is the entry of a list, if it holds.
func entryIn(list []entry, text string, now time.Time) *entry {
	for i, e := range list {
		if e.Entry == text && (e.Until.IsZero() || e.Until.After(now)) {
			return &list[i]
		}
	}
	return nil
}

// raiseOf is the override that holds for exactly a key.
func raiseOf(r *rule, key []string, now time.Time) *override {
	for i, v := range r.Overrides {
		if slices.Equal(v.Key, key) && (v.Until.IsZero() || v.Until.After(now)) {
			return &r.Overrides[i]
		}
	}
	return nil
}
