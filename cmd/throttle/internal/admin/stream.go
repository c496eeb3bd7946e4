package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

const (
	// heartbeat is what a stream without ticks waits before it says something, so
	// that proxies keep it.
	heartbeat = 15 * time.Second
	// catchUpWithin bounds how long the ticks that are kept are sent to one reader, who
	// resumes behind those that it has; they are held meanwhile.
	catchUpWithin = time.Minute
	// sendWithin bounds one write to a stream.
	sendWithin = 10 * time.Second
)

// after is the ID after which ticks are wanted: by Last-Event-ID, else by ?after=.
func after(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.FormValue("after")
	}
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, failf(http.StatusBadRequest, "after=%.40q: must be the id of a tick", text)
	}
	return id, nil
}

// series is GET /api/v1/series?after=ID: the ticks that are kept.
func (s *server) series(w http.ResponseWriter, r *http.Request) error {
	id, err := after(r)
	if err != nil {
		return err
	}
	s.looked()
	reply(w, map[string]any{"ticks": list(s.watch.ring.After(id)), "kept": ticks.Kept})
	return nil
}

// latest are the latest n ticks, for the page.
func (s *server) latest(n int) []ticks.Tick {
	s.looked()
	return s.watch.ring.Latest(n)
}

// stream is GET /api/v1/stream: the ticks after an ID, and each one to come, as
// server-sent events, until the reader leaves or the listener ends.
func (s *server) stream(w http.ResponseWriter, r *http.Request) error {
	id, err := after(r)
	if err != nil {
		return err
	}
	c := s.join()
	if c == nil {
		w.Header().Set("Retry-After", "10")
		return failf(http.StatusServiceUnavailable, "%d streams are open; read /api/v1/series", maxWatchers)
	}
	defer s.watch.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	to := http.NewResponseController(w)
	if err := to.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) { // that of the request would end it
		return err
	}
	if id, err = s.catchUp(r, w, to, id); err == nil {
		s.follow(r, w, to, c, id)
	}
	return nil // an error means that the reader has gone
}

// errSlow ends a stream whose reader takes too long for the ticks that are kept.
var errSlow = errors.New("the reader is too slow")

// catchUp sends the ticks that are kept while the sender of r may read them, and returns
// the ID of the last one.
func (s *server) catchUp(r *http.Request, w http.ResponseWriter, to *http.ResponseController, id int64) (int64, error) {
	until := time.Now().Add(catchUpWithin)
	if err := push(w, to, "retry: 1000\n\n"); err != nil {
		return id, err
	}
	for _, t := range s.watch.ring.After(id) {
		if s.access.of(r).role < reader || !time.Now().Before(until) {
			return id, errSlow
		}
		text, _ := json.Marshal(t) // of values of our own
		if err := push(w, to, moment{t.ID, text}.event()); err != nil {
			return id, err
		}
		id = t.ID
	}
	return id, nil
}

// follow sends ticks as they come, while the sender of r may read them: until its
// session ends.
func (s *server) follow(r *http.Request, w http.ResponseWriter, to *http.ResponseController, c <-chan moment, id int64) {
	idle := time.NewTimer(heartbeat)
	defer idle.Stop()
	for {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-s.watch.ending:
			return
		case m, ok := <-c:
			if !ok {
				return // too far behind
			}
			if m.id <= id {
				continue // the ring had it
			}
			text = m.event()
		case <-idle.C:
		}
		if s.access.of(r).role < reader || push(w, to, text) != nil {
			return
		}
		idle.Reset(heartbeat)
	}
}

func (m moment) event() string { return fmt.Sprintf("id: %d\ndata: %s\n\n", m.id, m.text) }

// push writes text at once.
func push(w http.ResponseWriter, to *http.ResponseController, text string) error {
	err := to.SetWriteDeadline(time.Now().Add(sendWithin))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return to.Flush()
}
