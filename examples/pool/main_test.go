package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestPool: two workers of 100 ms answer four requests in two turns.
func TestPool(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, start := pool(2, 100*time.Millisecond), time.Now()
		done := make(chan int)
		for range 4 {
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				done <- w.Code
			}()
		}
		for range 4 {
			if code := <-done; code != 200 {
				t.Errorf("answer %d", code)
			}
		}
		if took := time.Since(start); took < 100*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("took %v, want two turns of 50 to 150 ms", took)
		}
	})
}
