package throttle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// A call whose turn in a scope comes soon, by its priority or its key, is not refused because a
// hundred others wait there, as it would not be by the Throttle's own limit.
func TestDeadlineBesideACrowdInAScope(t *testing.T) {
	for name, mine := range map[string]throttle.CallOptions{
		"a priority": {Priority: load.High},
		"a key":      {Key: "mine"},
		"nothing":    {},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{
				Control:  pace.All(nil),
				Weights:  map[load.Priority]float64{load.High: 10},
				NewScope: func(string) pace.Controller { return &pace.Fixed{Rate: 1} },
			}
			mine.Needs = []throttle.Need{{Scope: "table"}}
			crowd, stop := context.WithCancel(throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: mine.Needs}))
			for range 100 {
				go func() { _ = th.Do(crowd, func(context.Context) error { return nil }) }()
			}
			time.Sleep(500 * time.Millisecond)
			ctx, cancel := context.WithTimeout(throttle.WithOptions(t.Context(), mine), 10*time.Second)
			defer cancel()
			began := time.Now()
			err := th.Do(ctx, func(context.Context) error { return nil })
			if ahead := name != "nothing"; (err == nil) != ahead || time.Since(began) > 2*time.Second {
				t.Errorf("with %s ahead of the others: %v after %v, want a start within 2s: %t", name, err, time.Since(began), ahead)
			}
			stop()
			synctest.Wait()
		})
	}
}
