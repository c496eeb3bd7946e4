package gateway

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestWatchCutsInTime: an exchange is cut when nothing has moved for idle, and at most a
// 64th of it later, whatever the others do.
func TestWatchCutsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const idle = 10 * time.Second
		w := &watchlist{idle: idle, start: time.Now()}
		moves := []time.Duration{0, 0, 100 * time.Millisecond, 2499 * time.Millisecond, 3 * time.Second, 9999 * time.Millisecond}
		all := make([]*exchange, len(moves))
		cut := make([]atomic.Int64, len(moves))
		for i := range all {
			x := &exchange{ResponseWriter: httptest.NewRecorder()}
			x.cancel = func() {
				cut[i].Store(int64(time.Since(w.start)))
				x.ended = true
				go w.remove(x) // as the one that serves it does
			}
			all[i] = x
			w.add(x)
		}
		for i, move := range moves {
			time.Sleep(move - time.Since(w.start))
			all[i].last.Store(int64(time.Since(w.start)))
		}
		time.Sleep(3 * idle)
		for i, move := range moves {
			at := time.Duration(cut[i].Load())
			if late := at - move - idle; late < 0 || late > idle/64 {
				t.Errorf("what moved last at %v is cut at %v", move, at)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.first != nil || w.timer != nil {
			t.Error("it goes on looking at nothing")
		}
	})
}
