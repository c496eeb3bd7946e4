package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// unwritten is an overlay that is empty, or away.
type unwritten struct{ away error }

func (u *unwritten) Load(context.Context) (string, []byte, error) { return "", nil, u.away }

func (u *unwritten) Swap(context.Context, string, []byte) (string, bool, error) {
	return "", false, u.away
}

// TestOverlayAway: an overlay that nobody has written to stays as it is while it is away;
// only of one that was never read it is said that it limits nobody.
func TestOverlayAway(t *testing.T) {
	for _, c := range []struct {
		read bool
		says string
	}{{true, "the rules stay as they are"}, {false, "no rules from there"}} {
		var log bytes.Buffer
		s := &sources{log: slog.New(slog.NewTextHandler(&log, nil))}
		shared := new(unwritten)
		stack := &rules.Stack{Shared: shared, OnState: s.reporter("overlay", "store")}
		if c.read {
			if err := stack.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		shared.away = errors.New("connection refused")
		if err := stack.Look(t.Context()); err == nil {
			t.Error("Look: no error while the overlay is away")
		}
		if !strings.Contains(log.String(), c.says) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("read before: %v; the log says %q, want a line with %q", c.read, &log, c.says)
		}
	}
}

// TestOverlayAtTheEnd: a look at the overlay that the end of the program interrupts is no
// error in the log.
func TestOverlayAtTheEnd(t *testing.T) {
	var log bytes.Buffer
	s := &sources{log: slog.New(slog.NewTextHandler(&log, nil))}
	stack := &rules.Stack{Shared: &unwritten{fmt.Errorf("redis: %w", context.Canceled)}, OnState: s.reporter("overlay", "store")}
	if err := stack.Look(t.Context()); err == nil || log.Len() > 0 {
		t.Errorf("error %v, and the log says %q; want an error and nothing", err, &log)
	}
}
