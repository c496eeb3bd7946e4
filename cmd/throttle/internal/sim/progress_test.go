package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
)

// The line of progress says how far the run is.
func TestProgress(t *testing.T) {
	s := clitest.Builtin(t, "heroku")
	got := progress(s, batch.Where{Done: 2, Total: 20, Policy: "fixed", At: 7*time.Minute + 30*time.Second, Sent: 12_345}, 20, 40)
	if want := "heroku: 22 of 40 runs; fixed at 450 s (25 %), 12,345 sent"; got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
	none, err := policy.Read([]string{"none"})
	if err != nil {
		t.Fatal(err)
	}
	var looks int
	b := batch.New(s, none, 1, 1, nil)
	b.Look = func(w batch.Where) {
		if looks++; w.Total != 1 || w.Policy != "none" || w.At <= 0 || w.Sent <= 0 {
			t.Errorf("look %d at a run = %+v", looks, w)
		}
	}
	if b.Run(t.Context()); looks < 2 {
		t.Errorf("%d looks at a run, want several", looks)
	}
}
