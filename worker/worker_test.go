package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// free is a Throttle that bounds nothing.
func free() *throttle.Throttle { return &throttle.Throttle{Control: new(pace.Fixed)} }

func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		w := worker.Worker[int]{Throttle: free(), Window: 10, Handle: func(ctx context.Context, n int) error {
			time.Sleep(time.Second)
			if n%100 == 7 {
				return bad
			}
			return nil
		}}
		seen := map[int]error{}
		for n, err := range w.Each(t.Context(), func(yield func(int) bool) {
			for n := range 1000 {
				if !yield(n) {
					return
				}
			}
		}) {
			seen[n] = err
		}
		if len(seen) != 1000 {
			t.Errorf("%d jobs yielded, want 1000", len(seen))
		}
		for n, err := range seen {
			if want := n%100 == 7; errors.Is(err, bad) != want {
				t.Errorf("job %d: %v", n, err)
			}
		}
		fmt.Println(time.Now())
	})
	_ = slices.Sorted[int]
}
