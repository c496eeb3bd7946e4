package batch

import (
	"context"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
)

// Each run that is over when the context ends is kept, and no more are begun.
func TestRunAllInterrupted(t *testing.T) {
	scenarios, err := scenario.Read([]string{"../sim/testdata/small.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := scenarios[0]
	policies, err := policy.Read([]string{"none,backoff,fixed"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	most := 0
	r := Run(ctx, s, policies, 4, 1, func(done, total int) {
		if most = done; done == 6 {
			cancel()
		}
		if total != 12 {
			t.Errorf("progress(%d, %d), want 12 in all", done, total)
		}
	})
	complete := 0
	for _, row := range r.Rows {
		complete += row.Seeds
	}
	if !r.Interrupted || complete != most || complete < 6 || complete == 12 {
		t.Errorf("interrupted after 6 of 12 runs: got %d rows, %d runs, interrupted %t; progress said %d", len(r.Rows), complete, r.Interrupted, most)
	}
}
