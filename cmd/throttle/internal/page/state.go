package page

import (
	"encoding/json"
	"strings"
	"time"
)

// status is GET /api/v1/status.
type status struct {
	Instance, Build string
	Since, Now      time.Time
	Draining        bool
	Unready         []string
	Rules           struct {
		Version string
		Kill    bool
		Unused  []string
	}
	Sources []source
	Store   *struct {
		State    string
		Fallback int64 `json:"decided_without_store"`
		Decided  int64
		Since    time.Time `json:"away_since"`
		Err      string    `json:"last_err"`
	}
	Decisions map[string]int64
}

type source struct {
	Name, Version, From, Err string
	Since, Confirmed         time.Time
}

// inUse is GET /api/v1/rules.
type inUse struct {
	Version     string
	Kill        json.RawMessage
	Rules       []rule
	Deny, Allow []entry
}

// rule is a rule in JSON.
type rule struct {
	Name      string
	Off       bool
	Shadow    json.RawMessage
	Key       string
	Match     json.RawMessage
	Limits    []string
	InFlight  int64 `json:"in_flight"`
	Overrides []override
	Counts    map[string]int64
}

// Parts are the parts of its key.
func (r *rule) Parts() []string {
	if r.Key == "" {
		return nil
	}
	return strings.Split(r.Key, "+")
}

// Shadowed says what of it is a dry run.
func (r *rule) Shadowed() string {
	switch {
	case len(r.Shadow) == 0:
		return ""
	case string(r.Shadow) == "true":
		return "shadow"
	}
	return "shadow limits"
}

// note is when something ends, and why it is there.
type note struct {
	Until, At time.Time
	Why, By   string
}

type override struct {
	Key      []string
	Limits   []string
	InFlight int64 `json:"in_flight"`
	note
}

// entry is one of a list: text, or an object.
type entry struct {
	Entry string
	note
}

// UnmarshalJSON reads either.
func (e *entry) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &e.Entry)
	}
	type plain entry
	return json.Unmarshal(data, (*plain)(e))
}

// byHand is GET /api/v1/overlay.
type byHand struct {
	Overlay struct {
		Serial      int64
		Kill        json.RawMessage
		Deny, Allow []entry
		Overrides   map[string][]override
		Switches    map[string][]switchCase
		Set         *struct{ Version string } // brought back; nil: none
		Log         []change
	}
	Unused []string
}

// switchCase is a value of a switch for a key, or for those of a pattern.
type switchCase struct {
	Key, Value string
	note
}

// change is one of its log.
type change struct {
	What []string
	note
}
