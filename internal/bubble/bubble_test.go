package bubble

import (
	"runtime"
	"testing"
	"time"
)

// TestWidth holds that processors come back when the last user has gone, and
// not before.
func TestWidth(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var w width
	w.narrow()
	w.narrow()
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Fatalf("two users: GOMAXPROCS is %d, want 1", got)
	}
	w.widen()
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Errorf("one user left: GOMAXPROCS is %d, want 1", got)
	}
	w.widen()
	if got := runtime.GOMAXPROCS(0); got != 3 {
		t.Errorf("nobody left: GOMAXPROCS is %d, want 3", got)
	}
}

// TestDueTimers holds that goroutines whose timers are all due at once share one
// processor under the race detector.
func TestDueTimers(t *testing.T) {
	Test(t, func(t *testing.T) {
		ends := make(chan struct{})
		const n, rounds = 64, 200
		for range n {
			go func() {
				for range rounds {
					select {
					case <-time.After(time.Millisecond):
					case <-time.After(time.Millisecond):
					}
				}
				ends <- struct{}{}
			}()
		}
		for range n {
			<-ends
		}
		if got := runtime.GOMAXPROCS(0); race && got != 1 {
			t.Errorf("GOMAXPROCS is %d in a bubble under the race detector, want 1", got)
		}
	})
}
