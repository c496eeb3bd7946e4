package throttlesql

import (
	"context"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// BenchmarkTake measures what a decision costs in Go: PostgreSQL answers at once.
func BenchmarkTake(b *testing.B) {
	now := int64(1_700_000_000_000_000)
	var passes Row = row(func(dest ...any) error { // as whole.sql, for a key that owed nothing
		*dest[0].(*int64), *dest[1].(*int64) = -now, now+1000
		return nil
	})
	s := &Store{Query: func(context.Context, string, ...any) Row { return passes }}
	a := []limit.Ask{{Key: "customer:42", Limit: limit.Limit{Count: 1000, Period: time.Second}, N: 1}}
	d := make([]limit.Decision, 1)
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := s.Take(b.Context(), a, d); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
