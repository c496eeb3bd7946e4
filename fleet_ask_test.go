package throttle_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// heard is a memory.Store a millisecond away that notes when it was asked, and for how
// much.
type heard struct {
	memory.Store
	away bool
	mu   sync.Mutex
	at   []time.Time
	asks []limit.Ask
}

func (h *heard) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	h.mu.Lock()
	h.at, h.asks = append(h.at, time.Now()), append(h.asks, a...)
	h.mu.Unlock()
	time.Sleep(time.Millisecond)
	if h.away {
		return false, context.DeadlineExceeded
	}
	return h.Store.Take(ctx, a, d)
}

// A Store that fails is asked again after a second, and then after twice as long each
// time, up to half a minute: also where all calls start at once, so that none waits.
func TestFleetAsksAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &heard{away: true}
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}, Fleet: throttle.Fleet{
			Store: s, Key: "api", Limit: limit.Limit{Count: 100, Period: time.Second},
		}}
		began := time.Now()
		for time.Since(began) < 130*time.Second {
			if err := th.Do(t.Context(), nothing); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		var rests []time.Duration
		for i := range len(s.at) - 1 {
			rests = append(rests, s.at[i+1].Sub(s.at[i]).Round(time.Second)/time.Second)
		}
		if want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}; !slices.Equal(rests, want) {
			t.Errorf("asked again after %d seconds, want after %d", rests, want)
		}
		for i, a := range s.asks {
			if i > 0 && a.N != 1 {
				t.Errorf("it was probed with %+v, want one token", a)
			}
		}
	})
}

// One request asks for MaxBatch tokens at most, which are 100 by default.
func TestFleetMaxBatch(t *testing.T) {
	for set, want := range map[int64]int64{0: 100, -1: 100, 7: 7, 1000: 300} {
		bubble.Test(t, func(t *testing.T) {
			s := new(heard)
			th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1e6}, Fleet: throttle.Fleet{
				Store: s, Key: "api", Limit: limit.Limit{Count: 1000, Period: time.Second}, MaxBatch: set,
			}}
			var all sync.WaitGroup
			for range 301 { // the first call asks for itself, the others wait meanwhile
				all.Go(func() { th.Do(t.Context(), nothing) })
			}
			all.Wait()
			most := slices.MaxFunc(s.asks, func(a, b limit.Ask) int { return int(a.N - b.N) }).N
			if most != want {
				t.Errorf("MaxBatch %d: asked for %d at most, want %d", set, most, want)
			}
			if i := slices.IndexFunc(s.asks, func(a limit.Ask) bool { return a.Key != "api" || a.Limit.Count != 1000 }); i >= 0 {
				t.Errorf("asked for %+v, want the Key and the Limit of the Fleet", s.asks[i])
			}
		})
	}
}

// Where the limit gives nothing for a day it is asked again within an hour, as it may
// be changed, or something be given back.
func TestFleetAsksWithinAnHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(heard)
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}, MaxWait: 100 * time.Hour, Fleet: throttle.Fleet{
			Store: s, Key: "api", Limit: limit.Limit{Count: 1, Period: 24 * time.Hour},
		}}
		if err := th.Do(t.Context(), nothing); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Hour+time.Minute, cancel)
		if err := th.Do(ctx, nothing); err == nil {
			t.Error("a second call was made within ten hours")
		}
		time.Sleep(time.Second) // the last request ends
		for i := range len(s.at) - 1 {
			if rest := s.at[i+1].Sub(s.at[i]); rest > time.Hour+time.Minute {
				t.Errorf("asked again after %v, want an hour", rest)
			}
		}
		if len(s.at) < 9 || len(s.at) > 12 {
			t.Errorf("asked %d times in ten hours, want some ten", len(s.at))
		}
	})
}

// Without a Timeout a request has 100 ms.
func TestFleetTimeout(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{0: 100 * time.Millisecond, -1: 100 * time.Millisecond, time.Second: time.Second} {
		bubble.Test(t, func(t *testing.T) {
			var has time.Duration
			st := store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				end, _ := ctx.Deadline()
				has = time.Until(end)
				d[0] = limit.Decision{OK: true, N: a[0].N}
				return true, nil
			})
			th := throttle.Throttle{Fleet: throttle.Fleet{Store: st, Key: "k", Timeout: set, Limit: limit.Limit{Count: 10, Period: time.Second}}}
			if err := th.Do(t.Context(), nothing); err != nil || has != want {
				t.Errorf("Timeout %v: a request had %v, %v; want %v", set, has, err, want)
			}
		})
	}
}

// A Fleet without a Limit bounds nothing, which is logged, once.
func TestFleetWithoutLimitIsLogged(t *testing.T) {
	for l, want := range map[limit.Limit]int{{}: 1, {Count: 100}: 1, {Count: 100, Period: time.Second}: 0} {
		var out bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}, Fleet: throttle.Fleet{Store: new(memory.Store), Key: "api", Limit: l}}
			for range 3 {
				if err := th.Do(t.Context(), nothing); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // the credit is gone
			}
		})
		slog.SetDefault(old)
		if n := strings.Count(out.String(), "key=api"); n != want {
			t.Errorf("a Limit of %v: %d lines, want %d:\n%s", l, n, want, &out)
		}
	}
}
