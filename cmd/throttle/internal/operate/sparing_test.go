package operate

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestSparing: by itself five lines at once and one a second; else as Most says.
func TestSparing(t *testing.T) {
	for _, c := range []struct {
		most        limit.Limit
		first, next int // of ten at once, and of ten a second later
	}{
		{limit.Limit{}, 5, 1},
		{limit.Limit{Count: 10, Period: time.Second, Burst: 3}, 3, 3},
	} {
		s, now := Sparing{Most: c.most}, time.Unix(1000, 0)
		for _, want := range []int{c.first, c.next} {
			got := 0
			for range 10 {
				if s.May(now) {
					got++
				}
			}
			if got != want {
				t.Errorf("%v: %d of ten at %d, want %d", c.most, got, now.Unix(), want)
			}
			now = now.Add(time.Second)
		}
	}
}
