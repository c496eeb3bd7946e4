package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/chart"
	"github.com/throttle-go/throttle/pace"
)

var update = flag.Bool("update", false, "write the golden files anew; read the difference line by line")

// TestGolden pins whole runs: every measure, and a chart of what was served
// and refused, so that a change of any law shows what it does.
func TestGolden(t *testing.T) {
	for _, run := range []struct{ scenario, policy string }{
		{"heroku", "adaptive"},
		{"heroku", "adaptive-informed"},
		{"heroku", "proportional-remaining"},
		{"emr-workers", "adaptive"},
		{"emr-shared", "adaptive"},
		{"emr-shared", "adaptive-informed"},
		{"dynamodb", "adaptive"},
		{"dynamodb", "adaptive-informed"},
		{"dynamodb", "aws-adaptive"},
		{"autoscale", "adaptive-informed"},
		{"sleeper", publishedSleeper},
		{"cassandra", "none(in-flight=adaptive)"},
		{"cassandra-slow-node", "none(in-flight=adaptive)"},
		{"gc-pause", "none(in-flight=adaptive)"},
		{"metastable", "none(in-flight=adaptive)"},
		{"throw-on-overload", "adaptive(in-flight=adaptive)"},
	} {
		family, _, _ := strings.Cut(run.policy, "(")
		t.Run(run.scenario+"-"+family, func(t *testing.T) {
			var got bytes.Buffer
			golden(t, &got, builtin(t, run.scenario), run.policy)
			file := filepath.Join("testdata", run.scenario+"-"+family+".txt")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is now\n%s\nif that is meant: go test ./sim -run Golden -update", file, got.Bytes())
			}
		})
	}
}

// golden writes one run as text.
func golden(t *testing.T, w *bytes.Buffer, s Scenario, policyText string) {
	t.Helper()
	const columns = 90
	end := s.Duration
	if end == 0 {
		end = 100 * time.Second * 5 / 2 // emr's floor; the sleeper ends sooner
	}
	var served, throttled, delays chart.Series
	served.Name, throttled.Name, delays.Name = "served a second", "throttled a second", "delay"
	var good, bad [columns]float64
	r := New(s, policy(t, policyText), 1)
	r.Watch = func(p Point) {
		if p.Sent {
			delays.X = append(delays.X, float64(len(delays.X)))
			delays.Y = append(delays.Y, p.Slept.Seconds())
			return
		}
		switch i := int(p.At * columns / end); {
		case i >= columns:
		case p.Verdict == pace.Served:
			good[i]++
		case p.Verdict == pace.Throttled:
			bad[i]++
		}
	}
	for !r.Step(1_000_000) {
	}
	width := end.Seconds() / columns
	for i := range columns {
		x := (float64(i) + 0.5) * width
		served.X, throttled.X = append(served.X, x), append(throttled.X, x)
		served.Y, throttled.Y = append(served.Y, good[i]/width), append(throttled.Y, bad[i]/width)
	}
	c := chart.Chart{Title: s.Name + " under " + policyText, X: "s", Y: "requests a second", Series: []chart.Series{throttled, served}}
	if len(s.Server.Gap) > 0 {
		c.X, c.Y, c.Series = "request", "s before it", []chart.Series{delays}
	}
	if err := c.Text(w, columns+10, 14); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(w)
	result := r.Result()
	for _, m := range Measures {
		if v := m.Of(result); v.OK {
			fmt.Fprintf(w, "%-24s %.6g\n", m.Name, v.V)
		}
	}
}
