package take

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTakeBench(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "take", "-bench", "-for", "50ms", "-callers", "3", "-keys", "7", "1000/week", "k")
	want := `^store        memory:
rule         1000/week, 7 keys
callers      3, for \d+(\.\d+)?m?s
decisions    \d+ a second, \d+\.\d % of them allowed
latency      p50 [^ ]+s, p99 [^ ]+s, p99.9 [^ ]+s
allocations  \d\.\d a decision, of \d+ bytes
errors       0
$`
	if code != 0 || stderr != "" || !regexp.MustCompile(want).MatchString(stdout) {
		t.Errorf("code %d, stderr %q, stdout\n%swant\n%s", code, stderr, stdout, want)
	}
	stdout, _, _ = play(t.Context(), "take", "-bench", "-json", "-for", "50ms", "1000/week", "k", "1")
	var got benchResult
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || got.Callers != 16 || got.Keys != 10_000 || got.Decisions < 100 || got.Allowed == 0 || got.Errors != 0 ||
		got.Rate <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.P999 < got.P99 || got.Allocs > 5 || got.Seconds < 0.05 {
		t.Errorf("-json: %+v", got)
	}
}

// One that is interrupted tells what it has measured, and is no success.
func TestTakeBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stdout, stderr, code := play(ctx, "take", "-bench", "-store", "memory:", "-for", "1m", "1000/week", "k")
	if code != 1 || !strings.Contains(stdout, " a second, ") || !regexp.MustCompile(`^throttle: take: interrupted: [0-9.]+m?s of 1m0s\n$`).MatchString(stderr) {
		t.Errorf("code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}

// Of a store that is not there nothing is measured, and it is said why.
func TestTakeBenchAway(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "take", "-bench", "-for", "20ms", "-timeout", "10s", "-store", "redis://127.0.0.1:1", "1/s", "k")
	if code != 1 || stdout != "" || !regexp.MustCompile(`^throttle: take: redis://127.0.0.1:1: .*connection refused\n$`).MatchString(stderr) {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// Quantiles are exact to a sixty-fourth, and never too small.
func TestTakeQuantiles(t *testing.T) {
	for d := range 100_000 {
		if far := longest(stepOf(time.Duration(d))); far < time.Duration(d) || far > time.Duration(d+d/timeSteps) {
			t.Fatalf("%d ns is in a step that ends at %v", d, far)
		}
	}
	if far := longest(stepOf(math.MaxInt64)); far < math.MaxInt64-math.MaxInt64/timeSteps {
		t.Errorf("the longest time is in a step that ends at %v", far)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	c := new(caller)
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(math.Exp(rng.Float64() * 20))
		c.note(d)
		c.decisions++
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 0.999} {
		got, want := c.quantile(q), all[int(q*10_000)]
		if got < want || got > want+want/timeSteps {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := new(caller).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}
