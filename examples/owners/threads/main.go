// Command threads shows a backend that hangs while customers go on asking: three
// requests of one customer for one operation may be in flight, and eight in all.
// All others are refused at once, and wait for nothing. However those in flight end,
// their places come back.
//
//	go run ./examples/owners/threads
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/throttle-go/throttle/examples/owners/internal/scene"
	"github.com/throttle-go/throttle/store"
)

func main() {
	scene.Main("a customer may keep three threads busy, and all may eight", func(ctx context.Context, out io.Writer) error {
		s, err := play(ctx)
		if err != nil {
			return err
		}
		return s.show(out)
	})
}

// act is requests of one customer at once, and what became of them.
type act struct {
	name, key, path string
	tally           scene.Tally
}

// stage is a service, and what was played there.
type stage struct {
	url      string
	stop     func()
	backend  *backend
	inFlight store.InFlight
	acts     []*act
	going    sync.WaitGroup
}

const patient = 20 * time.Second // longer than the play

func play(ctx context.Context) (*stage, error) {
	s, err := newStage(patient)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, part := range []func(context.Context) error{s.full, s.gone, s.bugs} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.late(ctx)
}

func newStage(timeout time.Duration) (s *stage, err error) {
	s = &stage{backend: newBackend()}
	handler, err := service(s.backend, &s.inFlight, timeout)
	if err != nil {
		return nil, err
	}
	s.url, s.stop, err = scene.Serve(handler)
	return s, err
}

// send sends n requests at once, and waits until all but so many are answered.
func (s *stage) send(ctx context.Context, name, key, path string, n, but int) error {
	a := &act{name: name, key: key, path: path}
	s.acts = append(s.acts, a)
	for range n {
		s.going.Go(func() { a.tally.Add(scene.Caller{URL: s.url, Key: key}.Send(ctx, "POST", path)) })
	}
	return until(ctx, fmt.Sprintf("%s, %s: answers", name, path), n-but, a.tally.Sent)
}

// full lets the exports hang until three customers have taken all places.
func (s *stage) full(ctx context.Context) error {
	s.backend.hang()
	for _, a := range []struct {
		name, key, path string
		n, but          int
	}{
		{"exports hang", "k1", "/export", 10, 3},
		{"exports hang", "k2", "/export", 10, 3},
		{"another operation", "k1", "/list", 2, 0},
		{"exports hang", "k3", "/export", 10, 2},
		{"another operation, all full", "k1", "/list", 2, 0},
	} {
		if err := s.send(ctx, a.name, a.key, a.path, a.n, a.but); err != nil {
			return err
		}
	}
	return s.after(ctx, "after they have hung")
}

// gone lets exports hang until their callers give up.
func (s *stage) gone(ctx context.Context) error {
	s.backend.hang()
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.send(calling, "callers give up", "k1", "/export", 3, 3); err != nil {
		return err
	}
	if err := until(ctx, "threads", 3, func() int { now, _ := s.backend.busy("all"); return now }); err != nil {
		return err
	}
	cancel()
	if err := s.idle(ctx); err != nil { // though they hang still
		return err
	}
	return s.after(ctx, "after that")
}

// bugs lets the backend panic.
func (s *stage) bugs(ctx context.Context) error {
	s.backend.hang()
	if err := s.send(ctx, "the backend panics", "k1", "/export?bug=1", 3, 0); err != nil {
		return err
	}
	return s.after(ctx, "after that")
}

// late lets exports hang until the service gives up. It is played on a stage of
// its own, which is less patient.
func (s *stage) late(ctx context.Context) error {
	impatient, err := newStage(100 * time.Millisecond)
	if err != nil {
		return err
	}
	defer impatient.stop()
	impatient.backend.hang()
	if err := impatient.send(ctx, "they take too long", "k1", "/export", 3, 0); err != nil {
		return err
	}
	s.acts = append(s.acts, impatient.acts...)
	return impatient.idle(ctx)
}

// after lets the backend recover, waits until nothing is in flight, and sends as
// many exports as may be.
func (s *stage) after(ctx context.Context, name string) error {
	s.backend.resume()
	s.going.Wait()
	if err := s.idle(ctx); err != nil {
		return err
	}
	return s.send(ctx, name, "k1", "/export", 3, 0)
}

// idle waits until nothing is in flight.
func (s *stage) idle(ctx context.Context) error {
	return until(ctx, "in flight", 0, func() int { return s.inFlight.Stats().Holds })
}

// until waits until there are so many of what.
func until(ctx context.Context, what string, want int, count func() int) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for count() != want {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d, want %d: %w", what, count(), want, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

func (s *stage) show(out io.Writer) error {
	rows := []string{"|customer|operation|sent|served|429|503|no answer"}
	for _, a := range s.acts {
		t := &a.tally
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s|%d|%d", a.name, customers[a.key], a.path, t.Row(), t.Of(http.StatusServiceUnavailable), t.Unanswered()))
	}
	if err := scene.Table(out, rows...); err != nil {
		return err
	}
	_, first := s.backend.busy("first::export")
	_, all := s.backend.busy("all")
	_, err := fmt.Fprintf(out, "threads at most: %d of one customer and operation, %d in all; in flight now: %d\n", first, all, s.inFlight.Stats().Holds)
	return err
}
