package store

import (
	"testing"
)

func BenchmarkInFlight(b *testing.B) {
	var f InFlight
	b.ReportAllocs()
	for b.Loop() {
		h, _, _ := f.Acquire(Count{Key: "all", Max: 100}, Count{Key: "42::export", Max: 3})
		h.Release()
	}
}
