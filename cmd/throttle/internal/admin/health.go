package admin

import (
	"fmt"
	"net/http"
	"strings"
)

// livez is GET /livez: the process answers.
func (s *server) livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok") // an error means that the caller has gone
}

// readyz is GET /readyz: 200 if requests should be sent to this process, else 503
// and a line for each reason.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	why := s.unready()
	if len(why) == 0 {
		_, _ = fmt.Fprintln(w, "ready")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintln(w, strings.Join(why, "\n"))
}

// unready says why no request should be sent to this process.
func (s *server) unready() (why []string) {
	if s.draining() {
		why = append(why, "draining")
	}
	if s.c.Rules != nil && (s.c.Rules.Load() == nil || !s.loaded()) {
		why = append(why, "no rules were loaded: nobody is limited")
	}
	if s.c.ReadyNeedsStore && s.storeAway() {
		why = append(why, "the store is away")
	}
	return why
}

// loaded reports whether a source of rules has a version, where there are any.
func (s *server) loaded() bool {
	for _, source := range s.c.Sources {
		if source.Status().Version != "" {
			return true
		}
	}
	return len(s.c.Sources) == 0
}

func (s *server) draining() bool {
	select {
	case <-s.c.Drain: // nil: never
		return true
	default:
		return false
	}
}

// storeAway reports whether the breaker in front of the store is open.
func (s *server) storeAway() bool {
	if s.c.Guard == nil {
		return false
	}
	state := s.c.Guard.Stats()
	return state.Away || state.Slow
}
