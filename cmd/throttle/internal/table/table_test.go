package table

import (
	"errors"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
)

func TestInterruptedTable(t *testing.T) {
	s, _ := sim.Find("emr")
	policies, _ := policy.Read([]string{"none,fixed"})
	r := batch.Run(t.Context(), s, policies, 3, 1, nil)
	if r.Interrupted || len(r.Rows) != 2 {
		t.Fatalf("batch.Run = %d rows, interrupted %t; want 2, false", len(r.Rows), r.Interrupted)
	}
	r.Rows[1].Seeds = 2
	var b strings.Builder
	if err := Write(&b, []batch.Result{r, {Scenario: s}}, false, 0); err != nil || !strings.Contains(b.String(), "\nfixed (2 of 3) ") {
		t.Errorf("Write = %v\n%s\nwant a row of 2 of 3", err, b.String())
	}
}

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.00012: "0.000", 0.0312: "0.031", 0.9994: "0.999", 0.9996: "1.00", 1.234: "1.23",
		9.994: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 1234.5: "1234", 1e6: "1000000",
	} {
		if got := Figure(x); got != want {
			t.Errorf("Figure(%v) = %s, want %s", x, got, want)
		}
	}
}

// Colours are outside of the alignment: without them the table is the same.
func TestColour(t *testing.T) {
	s, _ := sim.Find("emr")
	policies, _ := policy.Read([]string{"none,fixed"})
	r := []batch.Result{batch.Run(t.Context(), s, policies, 2, 1, nil)}
	var plain, colour strings.Builder
	if err := errors.Join(Write(&plain, r, false, 0), Write(&colour, r, true, 0)); err != nil {
		t.Fatal(err)
	}
	bare := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "").Replace(colour.String())
	trim := func(text string) string {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return strings.Join(lines, "\n")
	}
	if !strings.Contains(colour.String(), "\x1b[32m") || trim(bare) != plain.String() {
		t.Errorf("in colour:\n%q\nwant, but for colour,\n%q", colour.String(), plain.String())
	}
}

// A table says the settings that a policy takes without being told, and fits a
// narrow terminal.
func TestNarrowTable(t *testing.T) {
	s, _ := sim.Find("emr")
	s.Settings = map[string]string{"aimd": "start=3,cut=0.6"}
	policies, _ := policy.Read([]string{"fixed,fixed(rate=2),aimd,aimd(step=0.5),aimd(cut=0.7),aimd( cut = 0.8 ,start=2)"})
	r := []batch.Result{batch.Run(t.Context(), s, policies, 2, 1, nil)}
	var wide, narrow strings.Builder
	if err := errors.Join(Write(&wide, r, false, 0), Write(&narrow, r, false, 40)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nfixed is fixed(rate=4): 4 requests a second of a process\n",
		"\naimd is aimd(start=3,cut=0.6), as the scenario says\n",
		"\naimd(step=0.5) takes the rest from the scenario: start=3,cut=0.6\n",
		"\naimd(cut=0.7) takes the rest from the scenario: start=3\n",
	} {
		if !strings.Contains(wide.String(), want) {
			t.Errorf("the table\n%s\nwant it to say %s", wide.String(), want)
		}
	}
	if n := strings.Count(wide.String(), " takes the rest "); n != 2 {
		t.Errorf("%d policies take a rest, want 2, as one sets all by itself\n%s", n, wide.String())
	}
	for line := range strings.Lines(narrow.String()) {
		if n := len([]rune(strings.TrimSpace(line))); n > 40 {
			t.Errorf("a line of %d columns, want 40 at most: %s", n, line)
		}
	}
	if !strings.Contains(narrow.String(), "wait_p99_s") || strings.Count(narrow.String(), "\npolicy ") < 3 {
		t.Errorf("a narrow table\n%s\nwant all columns, below each other", narrow.String())
	}
}
