// Package bubble runs tests in virtual time: [synctest.Test], made safe under
// the race detector. For tests only.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble of [synctest.Test]. Under the race detector it sets
// GOMAXPROCS to 1 until the last of the bubbles that run has ended: all timers
// of a bubble share one race context, and the detector of Go 1.26 dies ("CHECK
// failed: tsan_rtl.cpp", or a fault) when a select runs a timer that is due on
// one processor while another processor runs a timer of the same bubble. What
// races is found on one processor too, as the detector goes by what happens
// before what, not by what happens at the same time. Safe for concurrent use.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if race {
		processors.narrow()
		defer processors.widen()
	}
	synctest.Test(t, f)
}

// processors counts the bubbles that run, under the race detector.
var processors width

// width holds GOMAXPROCS at 1 while somebody wants it.
type width struct {
	mu     sync.Mutex
	users  int
	before int // GOMAXPROCS, to be restored when users is 0 again
}

func (w *width) narrow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users++; w.users == 1 {
		w.before = runtime.GOMAXPROCS(1)
	}
}

func (w *width) widen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		runtime.GOMAXPROCS(w.before)
	}
}

// Long skips the test with -short, which scripts/test sets under the race detector. Call it on the
// first line of a test of figures that takes seconds, where shorter tests look for races in the same
// code: scripts/test runs it once more without the detector, which makes it many times as slow.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: runs without -short, as in scripts/test without the race detector")
	}
}
