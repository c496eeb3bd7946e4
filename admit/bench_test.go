package admit

import (
	"context"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func BenchmarkQueueWait(b *testing.B) {
	var q Queue
	l := limit.Limit{Count: 1_000_000_000, Period: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Wait(context.Background(), "k", l, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuotaCreate(b *testing.B) {
	q := Quota{MaxAge: time.Hour, Count: func(context.Context, string) (int64, error) { return 0, nil }}
	b.ReportAllocs()
	for b.Loop() {
		c, err := q.Create(context.Background(), "k", 1, 10)
		if err != nil {
			b.Fatal(err)
		}
		c.Cancel()
	}
}
