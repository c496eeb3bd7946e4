package throttle

import (
	"testing"
)

func BenchmarkInFlight(b *testing.B) {
	var f InFlight
	b.ReportAllocs()
	for b.Loop() {
		h, _, _ := f.Acquire(Count{Key: "all", Most: 100}, Count{Key: "42::export", Most: 3})
		h.Release()
	}
}
