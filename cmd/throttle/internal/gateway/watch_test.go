package gateway

import (
	"io"
	"net/http/httptest"
	"strings"
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

// TestWatchAwaitsAnswer: once all of the request was read, the wait for its answer is
// not cut before its timeout, and the answer has all of idle from its beginning; what
// is never sent nor answered is cut.
func TestWatchAwaitsAnswer(t *testing.T) {
	const idle, timeout = 10 * time.Second, time.Minute
	for _, c := range []struct{ after, want time.Duration }{
		{5 * time.Second, 15 * time.Second},
		{3 * idle, 4 * idle},
		{timeout, timeout + idle},
		{0, timeout + idle}, // never
	} {
		bubble.Test(t, func(t *testing.T) {
			start := time.Now()
			var cut atomic.Int64
			x := &exchange{ResponseWriter: httptest.NewRecorder(), g: &Gateway{start: start}, route: &route{idle: idle}}
			x.route.watch.idle, x.route.watch.answer, x.route.watch.start = idle, timeout, start
			x.cancel = func() {
				cut.Store(int64(time.Since(start)))
				x.ended = true
				go x.route.watch.remove(x)
			}
			x.watch()
			body := &upload{ReadCloser: io.NopCloser(strings.NewReader("x")), x: x}
			if _, err := io.Copy(io.Discard, body); err != nil {
				t.Fatal(err)
			}
			if c.after > 0 {
				time.Sleep(c.after)
				x.begins(200)
			}
			time.Sleep(2 * timeout)
			if at := time.Duration(cut.Load()); at < c.want || at-c.want > idle/64 {
				t.Errorf("answered after %v (0: never), cut after %v, want %v", c.after, at, c.want)
			}
		})
	}
}
