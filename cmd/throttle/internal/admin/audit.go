package admin

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// maxEvents bounds the ring of events.
const maxEvents = 1000

// An event is one write by the API, done or failed.
type event struct {
	// Seq counts the events of this process, from 1.
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
	// What is the operation: "raise", "block", "kill".
	What string `json:"what"`
	// On is its target: a rule, a key (a digest where keys are hidden), a version.
	On string `json:"on,omitempty"`
	// As is who was proven to send it: the name of a token or certificate.
	As string `json:"as"`
	// By and Why are what the caller says.
	By     string `json:"by,omitempty"`
	Why    string `json:"why,omitempty"`
	Status int    `json:"status"`
	Err    string `json:"err,omitempty"`
}

// audit keeps the latest events, and logs all. The zero value is ready.
type audit struct {
	log  *slog.Logger // nil: none
	mu   sync.Mutex
	seq  int64
	ring []event
}

// add records e, with its Seq.
func (a *audit) add(e event) {
	a.mu.Lock()
	a.seq++
	e.Seq = a.seq
	if len(a.ring) < maxEvents {
		a.ring = append(a.ring, e)
	} else {
		a.ring[(e.Seq-1)%maxEvents] = e
	}
	a.mu.Unlock()
	if a.log == nil {
		return
	}
	level := slog.LevelInfo
	if e.Err != "" {
		level = slog.LevelWarn
	}
	a.log.Log(context.Background(), level, "admin write",
		"seq", e.Seq, "what", e.What, "on", e.On, "as", e.As, "by", e.By, "why", e.Why, "status", e.Status, "err", e.Err)
}

// since returns the events after seq that are still kept, in their order.
func (a *audit) since(seq int64) []event {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []event{}
	for i := max(seq, a.seq-int64(len(a.ring))); i < a.seq; i++ {
		all = append(all, a.ring[i%maxEvents])
	}
	return all
}

// events is GET /api/v1/events?after=SEQ.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	after, err := int64(0), error(nil)
	if text := r.FormValue("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return failf(http.StatusBadRequest, "after=%.40q: must be the seq of an event", text)
		}
	}
	reply(w, map[string]any{"events": s.audit.since(after), "kept": maxEvents})
	return nil
}

// sparing bounds how often something is logged.
type sparing struct {
	mu    sync.Mutex
	state limit.State
}

// may reports whether it may be said now: once a second, and 5 times at once.
func (s *sparing) may(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, d := limit.Take(s.state, now, limit.Ask{Limit: limit.Limit{Count: 1, Period: time.Second, Burst: 5}, N: 1})
	s.state = next
	return d.OK
}

// turnedAway logs a request that was refused, sparingly.
func (s *server) turnedAway(r *http.Request, who caller, err error) {
	if s.c.Log != nil && s.refusals.may(time.Now()) {
		s.c.Log.Warn("admin refused", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "host", r.Host, "as", who.name, "err", err)
	}
}
