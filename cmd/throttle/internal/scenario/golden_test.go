package scenario

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
)

// TestGoldenScenarios pins a run of each file in testdata under some policies:
// what the scenario is in words, and every measure.
func TestGoldenScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d scenarios in testdata, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s, err := scenarioFile(file)
			if err != nil {
				t.Fatal(err)
			}
			clitest.Golden(t, strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden", goldenRuns(t, s))
		})
	}
}

// goldenRuns writes what a scenario is and how it goes.
func goldenRuns(t *testing.T, s sim.Scenario) string {
	t.Helper()
	var w bytes.Buffer
	fmt.Fprintln(&w, Gist(s))
	for _, f := range Describe(s) {
		fmt.Fprintf(&w, "%s: %s\n", f.Name, strings.Join(f.Text, " "))
	}
	policies, err := policy.Read([]string{"adaptive,adaptive-informed,aws-adaptive,autosleeper,omniscient"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policy.For(s, policies) {
		r := sim.New(s, p, 1)
		r.MaxSent = 1_000_000
		for !r.Step(1_000_000) {
		}
		result := r.Result()
		fmt.Fprintf(&w, "\n%s\n", p.Name)
		for _, m := range sim.Measures {
			if v := m.Of(result); v.OK {
				fmt.Fprintf(&w, "  %-24s %.6g\n", m.Name, v.V)
			}
		}
	}
	return w.String()
}
