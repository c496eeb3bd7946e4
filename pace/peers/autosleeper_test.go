package peers

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// curve is the configuration behind the graph in the original's description.
func curve() *AutoSleeper {
	return &AutoSleeper{InitialInterval: ms, UpMultiplier: 1.5, DownMultiplier: 0.6, DownMultiplierThreshold: 5}
}

func TestAutoSleeperReaches292ms(t *testing.T) {
	s := curve()
	want := time.Duration(0)
	for i := range 15 {
		if want == 0 {
			want = ms
		} else {
			want = time.Duration(float64(want) * 1.5)
		}
		if got := s.Failure(0); got != want {
			t.Fatalf("Failure %d = %v, want %v", i+1, got, want)
		}
	}
	if want != 291929238*time.Nanosecond {
		t.Errorf("after 15 failures %d ns, want 291929238: 291.9 ms", want)
	}
}

// A step that would go beyond MaxInterval goes to it.
func TestAutoSleeperReachesItsLongest(t *testing.T) {
	s := curve()
	s.MaxInterval = 3 * ms
	for i, want := range []time.Duration{1000, 1500, 2250, 3000, 3000} {
		if got := s.Failure(0); got != want*time.Microsecond {
			t.Errorf("Failure %d = %v, want %v µs", i+1, got, int64(want))
		}
	}
}

func TestAutoSleeperGoesDown(t *testing.T) {
	s := curve()
	for range 3 {
		s.Failure(0) // 1, 1.5, 2.25 ms
	}
	for i, want := range []time.Duration{
		2250, 2250, 2250, 2250, 1350, // 0.6 × 2.25
		1350, 1350, 1350, 1350, 0, // 0.81 is below the first interval
		0, 0,
	} {
		if got := s.Success(0); got != want*time.Microsecond {
			t.Fatalf("Success %d = %v, want %v µs", i+1, got, int64(want))
		}
	}
	if got := s.Failure(0); got != ms {
		t.Errorf("Failure after the return to 0 = %v, want 1ms", got)
	}
	want := AutoSleeperStats{
		TotalInvocation: 16, TotalWentUp: 4, TotalWentDown: 2, TotalSlept: 14,
		TotalSleepTime: (1000 + 1500 + 2250 + 4*2250 + 5*1350 + 1000) * time.Microsecond,
	}
	if got := s.Stats(); got != want {
		t.Errorf("Metrics() = %+v, want %+v", got, want)
	}
}

func TestAutoSleeperFailureKeepsSuccesses(t *testing.T) {
	s := curve()
	s.Failure(0)
	for range 4 {
		s.Success(0)
	}
	s.Failure(0) // 1.5 ms; four successes still count
	if got := s.Success(0); got != 0 {
		t.Errorf("fifth Success = %v, want 0: 0.9 ms is below the first interval", got)
	}
}

func TestAutoSleeperDefaults(t *testing.T) {
	zero, full := &AutoSleeper{RandomizationFactor: 0.3}, DefaultAutoSleeper()
	for i := range 3000 {
		luck := luckOf(3, uint64(i), 0)
		call := (*AutoSleeper).Success
		if luck.Unit(1) < 0.09 {
			call = (*AutoSleeper).Failure
		}
		a, b := call(zero, luck), call(full, luck)
		if a != b {
			t.Fatalf("call %d: zero fields sleep %v, the defaults %v", i, a, b)
		}
	}
	if zero.stats != full.stats || full.stats.TotalWentDown == 0 {
		t.Errorf("zero fields %+v, the defaults %+v", zero.stats, full.stats)
	}
}

// A step up draws from ±30 % and ends at MaxInterval.
func TestAutoSleeperRandomises(t *testing.T) {
	low, top := pace.Never, time.Duration(0)
	for i := range 5000 {
		s := DefaultAutoSleeper()
		s.Failure(0)
		d := s.Failure(luckOf(0, uint64(i), 0))
		low, top = min(low, d), max(top, d)
	}
	if low < 525*ms || low > 526*ms || top > 975*ms || top < 974*ms {
		t.Errorf("second Failure sleeps %v to %v, want 525ms to 975ms", low, top)
	}
	s := DefaultAutoSleeper()
	for i := range 100 {
		if d := s.Failure(luckOf(0, uint64(i), 0)); d > 15*time.Minute {
			t.Fatalf("Failure %d = %v, want at most 15m", i, d)
		}
	}
	// 2 minutes bound the random part of 0.9 × 15 minutes.
	low, top = pace.Never, 0
	for i := range 5000 {
		s := DefaultAutoSleeper()
		s.interval, s.successes = 15*time.Minute, 9
		d := s.Success(luckOf(0, uint64(i), 0))
		low, top = min(low, d), max(top, d)
	}
	if low < 690*time.Second || low > 691*time.Second || top > 930*time.Second || top < 929*time.Second {
		t.Errorf("the step down from 15m ends at %v to %v, want 11m30s to 15m30s", low, top)
	}
}

func TestAutoSleeperController(t *testing.T) {
	s := curve()
	for _, c := range []struct {
		at      time.Duration
		verdict pace.Verdict
		want    time.Duration // from then on
	}{
		{0, pace.Served, 0},
		{10 * ms, pace.Throttled, ms},
		{20 * ms, pace.Throttled, 1500 * time.Microsecond},
		{30 * ms, pace.Failed, -8500 * time.Microsecond},
		{40 * ms, pace.Ignored, -18500 * time.Microsecond},
		{50 * ms, pace.Served, 1500 * time.Microsecond},
	} {
		s.Start(at(c.at), pace.Request{})
		if rest := s.Observe(at(c.at), pace.Outcome{Sent: at(c.at), Report: pace.Report{Verdict: c.verdict}}); rest != 0 {
			t.Errorf("Observe(%v) at %v = %v, want 0", c.verdict, c.at, rest)
		}
		if got := s.Wait(at(c.at), pace.Request{Try: 1}); got != c.want && c.want != 0 {
			t.Errorf("Wait after %v at %v = %v, want %v", c.verdict, c.at, got, c.want)
		}
	}
	if got, want := s.Wait(at(50*ms), pace.Request{Place: 3}), 4500*time.Microsecond; got != want {
		t.Errorf("Wait(Place 3) = %v, want %v", got, want)
	}
}
