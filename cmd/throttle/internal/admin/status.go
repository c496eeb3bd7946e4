package admin

import (
	"net/http"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/store"
)

// state is GET /api/v1/status.
type state struct {
	Instance string    `json:"instance"`
	Build    string    `json:"build"`
	Since    time.Time `json:"since"`
	Now      time.Time `json:"now"`
	Draining bool      `json:"draining"`
	// Unready says why /readyz is red.
	Unready []string      `json:"unready,omitempty"`
	Rules   rulesState    `json:"rules"`
	Sources []sourceState `json:"sources"`
	Store   *storeState   `json:"store,omitempty"`
	// Decisions are counts by reason since the start.
	Decisions map[string]int64 `json:"decisions"`
}

type rulesState struct {
	Version string `json:"version"`
	Kill    bool   `json:"kill"`
	// Unused are parts of the overlay that no longer fit the rules.
	Unused []string `json:"unused,omitempty"`
}

type sourceState struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	From      string    `json:"from"`
	Since     time.Time `json:"since,omitzero"`
	Confirmed time.Time `json:"confirmed,omitzero"`
	Err       string    `json:"err,omitempty"`
	KeepErr   string    `json:"keep_err,omitempty"`
}

type storeState struct {
	State string `json:"state"` // closed, away or slow
	// Fallback counts calls decided without the store.
	Fallback int64     `json:"decided_without_store"`
	Decided  int64     `json:"decided"`
	Since    time.Time `json:"away_since,omitzero"`
	Err      string    `json:"last_err,omitempty"`
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) error {
	now := state{
		Instance: s.c.Instance, Build: s.c.Build, Since: s.began, Now: time.Now(), Draining: s.draining(),
		Unready: s.unready(), Sources: []sourceState{}, Decisions: map[string]int64{},
	}
	if s.c.Rules != nil {
		now.Rules.Version = s.configuration().Version
		now.Rules.Kill = s.killed(now.Now)
	}
	for i, is := range s.statuses() {
		name := "overlay"
		if i < len(s.c.Sources) {
			name = s.c.Sources[i].Name
		} else {
			_, now.Rules.Unused = s.c.Stack.Overlay()
		}
		now.Sources = append(now.Sources, sourceState{name, is.Version, string(is.From), is.Since, is.Confirmed, text(is.Err), text(is.KeepErr)})
	}
	if s.c.Guard != nil {
		now.Store = storeStateOf(s.c.Guard.Stats())
	}
	for what, n := range s.counts() {
		now.Decisions[what.Reason] += n
	}
	reply(w, now)
	return nil
}

// killed reports whether the kill switch is on.
func (s *server) killed(now time.Time) bool {
	return s.c.Rules != nil && s.c.Rules.Load().Killed(now)
}

func storeStateOf(g store.GuardStats) *storeState {
	is := &storeState{"closed", g.Fallback, g.Decided, g.AwaySince, text(g.LastErr)}
	switch {
	case g.Away:
		is.State = "away"
	case g.Slow:
		is.State = "slow"
	}
	return is
}

// counts are the decisions so far.
func (s *server) counts() map[admit.Counted]int64 {
	if s.c.Counter == nil {
		return nil
	}
	return s.c.Counter.Stats()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
