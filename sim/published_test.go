package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// TestPublishedTable holds the benchmark of zombocom/rate_throttle_client to
// its README: the mean retry rate of each strategy within a quarter, and the
// order of the columns except for pairs within noise.
func TestPublishedTable(t *testing.T) {
	published := []struct {
		policy      string
		retry       float64
		sleep, sdev float64
		clear       float64
	}{
		{"backoff", 0.8041, 46.72, 147.84, 74.33},
		{"gradual", 0.4056, 139.91, 867.73, 115.54},
		{"proportional", 0.0366, 17.31, 101.94, 551.10},
		{"proportional-remaining", 0.0307, 17.32, 78.44, 84.23},
	}
	var clear, sleeps, sdevs []float64
	for _, p := range published {
		got := summary(t, builtin(t, "heroku"), p.policy, 10)
		if r := got["retry_rate_worker_mean"].Median; math.Abs(r-p.retry) > p.retry/4 {
			t.Errorf("%s: mean retry rate %.4f, published %.4f", p.policy, r, p.retry)
		}
		// Single runs vary by half; the published run lies among ours, or near.
		if s := got["stdev_requests"]; p.sdev < s.Min/2 || p.sdev > s.Max*2 {
			t.Errorf("%s: deviation of requests %v, published %v", p.policy, s, p.sdev)
		}
		sleeps, sdevs = append(sleeps, got["max_sleep_s"].Median), append(sdevs, got["stdev_requests"].Median)
		clear = append(clear, summary(t, builtin(t, "heroku-clear"), p.policy, 3)["finish_s"].Median)
	}
	// Gradual sleeps longest and is the least even, plain backoff is second;
	// the other two lie within noise of each other.
	for _, column := range [][]float64{sleeps, sdevs} {
		if column[1] < column[0] || column[0] < column[2] || column[0] < column[3] {
			t.Errorf("backoff, gradual, proportional, remaining: %.1f, in another order than published", column)
		}
	}
	for i, c := range clear {
		if i != 2 && clear[2] < 4*c {
			t.Errorf("clearing takes proportional %.0f s and %s %.0f s; want it far behind", clear[2], published[i].policy, c)
		}
	}
}

// publishedSleeper has the settings of the chart of AutoSleeper's documentation.
const publishedSleeper = "autosleeper(initial=1ms,up=1.5,down=0.6,threshold=5,randomization=0)"

// TestAutoSleeperDefaults: named without settings, it has those of AutoSleeper
// itself in every scenario, in that of its chart too.
func TestAutoSleeperDefaults(t *testing.T) {
	const defaults = "autosleeper(initial=500ms,max=15m,max-randomization=2m,up=1.5,down=0.9,randomization=0.3,threshold=10)"
	for _, s := range Builtin() {
		if p := policy(t, "autosleeper").with(s.Settings); *controller[peers.AutoSleeper](t, p) != *peers.DefaultAutoSleeper() {
			t.Errorf("autosleeper in %s is %+v, want the defaults", s.Name, p.New())
		}
	}
	if p := policy(t, defaults); *controller[peers.AutoSleeper](t, p) != *peers.DefaultAutoSleeper() {
		t.Errorf("%s is %+v, want the defaults", defaults, p.New())
	}
}

// controller makes one of that type.
func controller[T any](t *testing.T, p Policy) *T {
	t.Helper()
	c, ok := p.New().(any).(*T)
	if !ok {
		t.Fatalf("%s makes a %T", p.Name, p.New())
	}
	return c
}

// TestSleeperCurve is the chart of AutoSleeper's documentation: delays double
// to 291.9 ms by 15 failures in a row, and settle above 60 ms when the server
// allows more.
func TestSleeperCurve(t *testing.T) {
	r := New(builtin(t, "sleeper"), policy(t, publishedSleeper), 1)
	var slept []time.Duration
	var verdicts []pace.Verdict
	r.Watch = func(p Point) {
		if p.Sent {
			slept = append(slept, p.Slept)
		} else {
			verdicts = append(verdicts, p.Verdict)
		}
	}
	for !r.Step(1000) {
	}
	failures := 0
	for i, v := range verdicts[1:] {
		if v != pace.Throttled {
			if got := slept[i+1].Round(100 * time.Microsecond); failures != 15 || got != 291900*time.Microsecond {
				t.Errorf("after %d failures in a row the delay is %v, want 15 and 291.9ms", failures, got)
			}
			break
		}
		failures++
	}
	tail := slices.Clone(slept[400:])
	slices.Sort(tail)
	if median := tail[len(tail)/2]; median < 40*time.Millisecond || median > 150*time.Millisecond {
		t.Errorf("later the median delay is %v, want somewhat above 60ms", median)
	}
}
