package scenario

import (
	"os"
	"regexp"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesOfDocs: the scenarios of docs/simulator.md are read as they stand there, and
// do not stop at their first answers.
func TestExamplesOfDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2 {
		t.Fatalf("docs/simulator.md has %d scenarios, want 2 and more", len(blocks))
	}
	policies, err := policy.Read([]string{"adaptive"})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		s, err := Parse("example.yaml", []byte(b[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, b[1])
			continue
		}
		r := sim.New(s, policies[0], 1)
		for !r.Step(1_000_000) {
		}
		if served := r.Result().Served; served < 50 {
			t.Errorf("serves %d calls, want 50 and more, of\n%s", served, b[1])
		}
	}
}
