package throttleredis

import (
	"context"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/limit"
)

// BenchmarkTake measures what a decision costs in Go: Redis answers at once.
func BenchmarkTake(b *testing.B) {
	bare := limit.Limit{Count: 1_000_000, Period: 1e9}
	var first, answer any = answered(late, strings.Repeat("p", 7+historyLen), fresh), answered(late, "", fresh)
	for _, c := range []struct {
		name  string
		batch int
	}{{"shared", 0}, {"alone", -1}} {
		b.Run(c.name, func(b *testing.B) {
			next := first
			s := &Store{MaxBatch: c.batch, Do: func(context.Context, ...any) (v any, err error) {
				v, next = next, answer
				return v, nil
			}}
			b.ReportAllocs()
			a, d := []limit.Ask{{Key: "customer:42", Limit: bare, N: 1}}, make([]limit.Decision, 1)
			for b.Loop() {
				if ok, err := s.Take(b.Context(), a, d); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
