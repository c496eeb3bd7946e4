package fit

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func TestModel(t *testing.T) {
	for _, x := range []struct {
		m    Model
		text string
		want limit.Limit
		ok   bool
	}{
		{Model{}, "unlimited", limit.Limit{}, false},
		{Model{Kind: TokenBucket, Rate: 5, Burst: 10}, "token bucket, 5/s, burst 10", limit.Limit{Count: 5, Period: time.Second, Burst: 10}, true},
		{Model{Kind: TokenBucket, Rate: 10.0 / 3600, Burst: 3}, "token bucket, 10/h, burst 3", limit.Limit{Count: 10, Period: time.Hour, Burst: 3}, true},
		{Model{Kind: TokenBucket, Rate: 0.5, Burst: 1}, "token bucket, 30/m, burst 1", limit.Limit{Count: 30, Period: time.Minute, Burst: 1}, true},
		{Model{Kind: TokenBucket, Rate: 2.345, Burst: 1}, "token bucket, 2.35/s, burst 1", limit.Limit{Count: 23450, Period: 10_000 * time.Second, Burst: 1}, true},
		{Model{Kind: TokenBucket}, "token bucket, 0/h, burst 0", limit.Limit{Period: time.Second, Burst: 1}, false},
		{Model{Kind: FixedWindow, Count: 60, Period: time.Minute, Phase: 1500 * time.Millisecond}, "fixed window, 60 in 1m0s, phase 1.5s", limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: time.Minute}, true},
		{Model{Kind: FixedWindow, Count: 60, Period: time.Minute, FromFirst: true}, "fixed window, 60 in 1m0s, from the first request", limit.Limit{Kind: limit.FirstHitWindow, Count: 60, Period: time.Minute}, true},
		{Model{Kind: SlidingLog, Count: 9, Period: time.Hour}, "sliding log, 9 in 1h0m0s", limit.Limit{Kind: limit.SlidingLog, Count: 9, Period: time.Hour}, true},
		{Model{Kind: SlidingCounter, Count: 9, Period: time.Second}, "sliding window counter, 9 in 1s", limit.Limit{Kind: limit.SlidingWindow, Count: 9, Period: time.Second}, true},
		{Model{Kind: Concurrency, InFlight: 7}, "concurrency limit, 7 in flight", limit.Limit{}, false},
		{Model{Kind: Delay, Rate: 20, Burst: 2}, "delaying queue, 20/s, burst 2", limit.Limit{}, false},
		{Model{Kind: 99}, "unknown", limit.Limit{}, false},
	} {
		if got := x.m.String(); got != x.text {
			t.Errorf("%+v: %q, want %q", x.m, got, x.text)
		}
		if got, ok := x.m.Limit(); got != x.want || ok != x.ok {
			t.Errorf("%+v: %+v %t, want %+v %t", x.m, got, ok, x.want, x.ok)
		}
	}
}

// TestModelLongest: the longest period there is has a text, too.
func TestModelLongest(t *testing.T) {
	m := Model{Kind: SlidingLog, Count: 9, Period: math.MaxInt64}
	if got, want := m.String(), "sliding log, 9 in "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want it to begin with %q", got, want)
	}
}
