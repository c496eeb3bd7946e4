package replay

import (
	"io"
	"runtime"
	"testing"
	"time"
)

// What a line costs does not depend on the machine: reading it allocates nothing of its
// own, and a decision little more than the text of its keys.
func TestAllocationsOfALine(t *testing.T) {
	const n = 20_000
	log := written(t, "a.log", lines(n, 50, 10*time.Millisecond, "/a/b?c=d"))
	file := written(t, "r.yaml", "rules:\n  - {name: a, key: address, limits: [5/s, 60/min]}\n  - {name: b, limits: 90/s}\n")
	perLine := func(args ...string) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := Run(t.Context(), append(args, log), nil, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / n
	}
	if got := perLine("-trace", "/dev/null"); got > 2.2 { // two of them write the time
		t.Errorf("reading: %.2f allocations a line, want 2.2 at most", got)
	}
	if got := perLine("-rules", file); got > 2.2 {
		t.Errorf("deciding: %.2f allocations a line, want 2.2 at most", got)
	}
	if got := perLine("-suggest", "address"); got > 1.2 {
		t.Errorf("proposing: %.2f allocations a line, want 1.2 at most", got)
	}
}
