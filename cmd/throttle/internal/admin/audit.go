package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// maxEvents bounds the ring of events.
const maxEvents = 1000

// An event is one write by the API, done or failed; or, without As, something that
// the program did by itself: new rules, a store that is away.
type event struct {
	// Seq counts the events of this process, from 1.
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
	// What is the operation: "raise", "block", "kill".
	What string `json:"what"`
	// On is its target: a rule, a key (a digest where keys are hidden), a version.
	On string `json:"on,omitempty"`
	// As is who was proven to send it: the name of a token or certificate.
	As string `json:"as,omitempty"`
	// By and Why are what the caller says.
	By     string `json:"by,omitempty"`
	Why    string `json:"why,omitempty"`
	Status int    `json:"status,omitempty"`
	Err    string `json:"err,omitempty"`
}

// Journal keeps the latest 1,000 events. The zero value is ready. It is safe for
// concurrent use.
type Journal struct {
	mu   sync.Mutex
	seq  int64
	ring []event
}

// Logger returns a Logger that adds what is logged to the Journal, too.
func (j *Journal) Logger(to *slog.Logger) *slog.Logger {
	return slog.New(&journalled{to.Handler(), j, ""})
}

// journalled is a Handler that keeps what it handles.
type journalled struct {
	slog.Handler
	j    *Journal
	with string
}

// Enabled reports whether r is kept or handled: the Journal keeps what is said at
// info and above, whatever the level of the log.
func (h *journalled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

// Handle keeps r, and handles it at the level of the log.
func (h *journalled) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(h.with)
	e := event{At: r.Time.UTC(), What: r.Message}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			e.Err = words.OneLine(a.Value.String())
		} else {
			fmt.Fprintf(&text, " %s=%.200s", a.Key, plain(a.Value))
		}
		return true
	})
	e.On = words.OneLine(strings.TrimSpace(text.String()))
	h.j.add(e)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// plain is v as text; of a list, its items are told apart.
func plain(v slog.Value) string {
	if list, ok := v.Any().([]string); ok {
		return strings.Join(list, "; ")
	}
	return v.String()
}

// WithAttrs returns a Handler with more attributes.
func (h *journalled) WithAttrs(all []slog.Attr) slog.Handler {
	with := h.with
	for _, a := range all {
		with += fmt.Sprintf(" %s=%.200s", a.Key, a.Value)
	}
	return &journalled{h.Handler.WithAttrs(all), h.j, with}
}

// WithGroup returns a Handler with a group.
func (h *journalled) WithGroup(name string) slog.Handler {
	return &journalled{h.Handler.WithGroup(name), h.j, h.with}
}

// add keeps e, and returns it with its Seq.
func (j *Journal) add(e event) event {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	e.Seq = j.seq
	if len(j.ring) < maxEvents {
		j.ring = append(j.ring, e)
	} else {
		j.ring[(e.Seq-1)%maxEvents] = e
	}
	return e
}

// audit keeps the latest events, and logs writes.
type audit struct {
	log *slog.Logger // nil: none
	*Journal
}

// write records a write.
func (a *audit) write(e event) {
	e = a.add(e)
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
func (j *Journal) since(seq int64) []event {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := []event{}
	for i := max(seq, j.seq-int64(len(j.ring))); i < j.seq; i++ {
		all = append(all, j.ring[i%maxEvents])
	}
	return all
}

// last is the Seq of the latest event.
func (j *Journal) last() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
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

// turnedAway logs a request that was refused, sparingly.
func (s *server) turnedAway(r *http.Request, who caller, err error) {
	if s.c.Log != nil && s.refusals.May(time.Now()) {
		s.c.Log.Warn("admin refused", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "host", r.Host, "as", who.name, "err", err)
	}
}
