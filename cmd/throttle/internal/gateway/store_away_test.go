package gateway

import (
	"strings"
	"testing"
	"time"
)

// TestStoreAwayAtStart: that the store is away is said before any request comes.
func TestStoreAwayAtStart(t *testing.T) {
	r := start(t, echo, "-limit", "4/h", "-store", "redis://127.0.0.1:1")
	for late := time.Now().Add(5 * time.Second); !strings.Contains(r.said(), "the store does not decide"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("without a request the log says only\n%s", r.said())
		}
	}
}
