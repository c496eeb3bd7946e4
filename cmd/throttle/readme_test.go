package main

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Every figure of the README is what the command beside it prints now, to a
// twentieth: whoever changes a law also brings the README up to date.
func TestReadmeFigures(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)`,.*\\| ([0-9.]+) % \\| ([0-9.]+) s \\| ([0-9.]+) \\| ([0-9.]+) \\|$").FindAllSubmatch(text, -1)
	if len(rows) != 4 {
		t.Fatalf("found %d rows of figures in README.md, want 4", len(rows))
	}
	now := medians(t, "sim", "-json", "-policy", "backoff,aws-adaptive,adaptive,adaptive-informed", "emr-shared")
	for _, row := range rows {
		policy := string(row[1])
		for i, measure := range []string{"retry_rate", "max_sleep_s", "jain", "utilisation"} {
			scale := []float64{100, 1, 1, 1}[i]
			checkFigure(t, "emr-shared, "+policy+", "+measure, string(row[i+2]), scale*now[policy][measure])
		}
	}
	heroku := regexp.MustCompile("`adaptive-informed` is ([0-9.]+) %").FindSubmatch(text)
	if heroku == nil {
		t.Fatal("README.md does not say how often adaptive-informed is throttled under heroku")
	}
	now = medians(t, "sim", "-json", "-policy", "adaptive-informed", "heroku")
	checkFigure(t, "heroku, adaptive-informed", string(heroku[1]), 100*now["adaptive-informed"]["retry_rate_worker_mean"])
}

// medians are the medians of all measures by policy.
func medians(t *testing.T, args ...string) map[string]map[string]float64 {
	t.Helper()
	stdout, stderr, code := play(t.Context(), args...)
	var all struct{ Results []map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 {
		t.Fatalf("throttle %q: code %d, %s, %v", args, code, stderr, err)
	}
	found := map[string]map[string]float64{}
	for _, r := range all.Results {
		var policy string
		if err := json.Unmarshal(r["policy"], &policy); err != nil {
			t.Fatal(err)
		}
		found[policy] = map[string]float64{}
		for name, raw := range r {
			var stat struct{ Median float64 }
			if json.Unmarshal(raw, &stat) == nil {
				found[policy][name] = stat.Median
			}
		}
	}
	return found
}

// checkFigure lets a figure be off by a twentieth, or by what it is rounded to.
func checkFigure(t *testing.T, what, text string, now float64) {
	t.Helper()
	says, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if off := math.Abs(says - now); off > max(now/20, 0.005) {
		t.Errorf("%s: README.md says %s, it is %.4g", what, text, now)
	}
}
