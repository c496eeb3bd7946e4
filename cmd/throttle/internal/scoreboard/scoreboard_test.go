package scoreboard

import (
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
)

func TestBoardPlan(t *testing.T) {
	policies, err := policy.Read([]string{"none,fixed,aimd"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		scenario              string
		seeds, policies, runs int
	}{
		{"heroku", 20, 3, 20},
		{"ten-thousand", 20, 3, 3},
		{"ten-thousand", 2, 3, 2},
		{"mixed-20", 20, 1, 20},
		{"rival", 20, 3, 20},
	} {
		s, _ := sim.Find(test.scenario)
		if p, n := Plan(s, policies, test.seeds); len(p) != test.policies || n != test.runs {
			t.Errorf("Plan(%s, 3 policies, %d) = %d policies, %d; want %d, %d", test.scenario, test.seeds, len(p), n, test.policies, test.runs)
		}
	}
}

// Runs that send too much are stopped, marked, and never the best.
func TestScoreboardStops(t *testing.T) {
	s, _ := sim.Find("emr-shared")
	policies, _ := policy.Read([]string{"none,fixed(rate=1)"})
	b := batch.New(s, policies, 2, 1, nil)
	b.MaxSent = 8_000
	r := b.Run(t.Context())
	if r.Rows[0].Summary.Cut != 2 || r.Rows[1].Summary.Cut != 0 {
		t.Fatalf("%d and %d of 2 runs cut, want 2 of none and 0 of fixed", r.Rows[0].Summary.Cut, r.Rows[1].Summary.Cut)
	}
	if sent := r.Rows[0].Summary.Stats[measures.At("sent")].V.Max; sent > 8_000 {
		t.Errorf("sent %v, want 8000 at most", sent)
	}
	var out strings.Builder
	if err := Write(&out, []batch.Result{r}, 2, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[1], "† stopped at 2,000,000 requests") || !strings.HasPrefix(lines[5], "none † ") ||
		strings.Contains(lines[5], "*") || strings.Contains(lines[6], "†") || !strings.Contains(lines[6], "*") {
		t.Errorf("got\n%s\nwant none marked, and fixed the best", out.String())
	}
	out.Reset()
	if err := WriteMarkdown(&out, "x", []batch.Result{r}, 2); err != nil || !strings.Contains(out.String(), "† Runs were stopped") || !strings.Contains(out.String(), "\n| none † | ") {
		t.Errorf("in Markdown (%v):\n%s", err, out.String())
	}
	out.Reset()
	if err := Write(&out, []batch.Result{r}, 2, true); err != nil || !strings.Contains(out.String(), "\x1b[32m") {
		t.Errorf("in colour (%v): %q", err, out.String())
	}
}

func TestBoardCommand(t *testing.T) {
	got := Command([]string{"scoreboard", "-policy", "a(b=1s),it's", "-md=docs/x.md", ""})
	if want := `go run ./cmd/throttle sim scoreboard -policy 'a(b=1s),it'\''s' -md=docs/x.md ''`; got != want {
		t.Errorf("Command = %s, want %s", got, want)
	}
}

// A section says which policies have other settings than their own.
func TestBoardTellsSettings(t *testing.T) {
	s, _ := sim.Find("heroku-clear")
	got := sectionOf(batch.Result{Scenario: s}).gist
	if want := "3h; gradual is gradual(start=1s); proportional is "; !strings.Contains(got, want) {
		t.Errorf("heroku-clear: %q, want %q in it", got, want)
	}
}
