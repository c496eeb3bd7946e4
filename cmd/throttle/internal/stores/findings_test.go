package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// finder is a store whose Check returns one error after the other.
type finder struct {
	memory.Store
	errs  []error
	asked int
}

func (f *finder) Check(context.Context) error {
	f.asked++
	return f.errs[min(f.asked, len(f.errs))-1]
}

// TestFindings: what Check finds is logged once, a line each, as soon as the store can be
// asked, and nothing else is.
func TestFindings(t *testing.T) {
	away := &throttleredis.Error{Err: errors.New("connection refused")}
	for _, c := range []struct {
		errs  []error
		asked int
		want  []string
	}{
		{[]error{nil}, 1, nil},
		{[]error{away, errors.New("throttlesql: check: connection refused"), nil}, 3, nil},
		{[]error{away, fmt.Errorf("throttleredis: maxmemory-policy allkeys-lru: %w", throttleredis.ErrEvicts)}, 2, []string{"evicts keys"}},
		{[]error{errors.New("throttleredis: the user of Redis may not run TIME")}, 1, []string{"may not run TIME"}},
		{[]error{errors.Join(throttlesql.ErrVacuum, throttlesql.ErrFence)}, 1, []string{"vacuum is held back", "the fence is in the future"}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var b lines
			f := &finder{errs: c.errs}
			a := &Absence{Log: slog.New(slog.NewTextHandler(&b, nil)), Guard: &store.Guard{Store: f}, Finder: (&Named{Store: f}).Finder()}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go a.Run(ctx)
			time.Sleep(time.Minute)
			synctest.Wait()
			got := strings.Split(strings.TrimSuffix(b.take(), "\n"), "\n")
			if got[0] == "" {
				got = nil
			}
			if f.asked != c.asked || len(got) != len(c.want) {
				t.Fatalf("%v: asked %d times, logged %q, want %d times and %q", c.errs, f.asked, got, c.asked, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) || !strings.Contains(got[i], "WARN") {
					t.Errorf("line %d: %s, want a warning with %q", i, got[i], want)
				}
			}
		})
	}
}

// redisFinder is a Finder in Redis, of which servers were replaced.
type redisFinder struct {
	finder
	replaced atomic.Int64
}

func (f *redisFinder) Check(ctx context.Context) error {
	f.replaced.Add(1000) // the slots that it asks for
	return f.finder.Check(ctx)
}

func (f *redisFinder) Stats() throttleredis.Stats {
	return throttleredis.Stats{Replaced: f.replaced.Load()}
}

// TestFindingsAfterFailover: after a fail-over of Redis all slots are asked for again, once.
func TestFindingsAfterFailover(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &redisFinder{finder: finder{errs: []error{nil}}}
		a := &Absence{Log: slog.New(slog.DiscardHandler), Guard: &store.Guard{Store: f}, Finder: f}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.Run(ctx)
		for want := range 3 {
			time.Sleep(time.Minute)
			synctest.Wait()
			if f.asked != want+1 {
				t.Errorf("asked %d times after %d fail-overs, want %d", f.asked, want, want+1)
			}
			f.replaced.Add(1)
		}
	})
}
