package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func TestTables(t *testing.T) {
	for _, test := range []struct {
		file string
		args string
	}{
		{"one.txt", "sim -policy fixed -seeds 1 -seed=3 testdata/small.yaml"},
		{"two.txt", "sim testdata/small.yaml -seeds=3 emr --policy=none,backoff(factor=2,cap=5s),fixed(rate=2) -seed 7"},
		{"published.txt", "sim -policy backoff,proportional -seeds 2 heroku heroku-clear"},
		{"small.json", "sim -json -policy none -policy fixed -seeds 3 testdata/small.yaml"},
	} {
		stdout, stderr, code := play(t.Context(), strings.Fields(test.args)...)
		if code != 0 || stderr != "" {
			t.Errorf("throttle %s: got code %d, stderr %q; want 0 and nothing", test.args, code, stderr)
		}
		golden(t, test.file, stdout)
	}
}

func TestDefault(t *testing.T) {
	stdout, _, code := play(t.Context(), "sim", "-seeds", "1")
	if code != 0 || !strings.HasPrefix(stdout, "heroku: ") {
		t.Errorf("throttle sim = %q, code %d; want heroku", stdout, code)
	}
	for _, p := range sim.Policies() {
		if !strings.Contains(stdout, "\n"+p.Name+" ") {
			t.Errorf("throttle sim: no row for %s in\n%s", p.Name, stdout)
		}
	}
}

// The keys of a result, and their order, are the form that others read.
func TestJSONForm(t *testing.T) {
	stdout, _, _ := play(t.Context(), "sim", "-json", "-policy=fixed", "-seeds=2", "testdata/small.yaml")
	want := strings.Fields("version results scenario policy seeds retry_rate retry_rate_worker_mean max_sleep_s stdev_requests jain jain_workers " +
		"utilisation sent served throttled throughput finish_s wait_p50_s wait_p99_s reconverge_s groups")
	if got := keys(t, stdout); !slices.Equal(got[:min(len(want), len(got))], want) {
		t.Errorf("keys of -json are %v, want first %v", got, want)
	}
	var all struct {
		Version int
		Results []map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || all.Version != 1 || len(all.Results) != 1 {
		t.Fatalf("-json = %s (%v), want version 1 and one result", stdout, err)
	}
	if got := string(all.Results[0]["finish_s"]); got != "null" {
		t.Errorf("finish_s of an endless scenario is %s, want null", got)
	}
	var groups []map[string]json.RawMessage
	if err := json.Unmarshal(all.Results[0]["groups"], &groups); err != nil || len(groups) != 2 {
		t.Fatalf("groups = %s (%v), want two", all.Results[0]["groups"], err)
	}
	if got := string(groups[1]["policy"]); got != `"none"` {
		t.Errorf("policy of the rival is %s, want none", got)
	}
}

// keys are the keys of JSON in their order, those of statistics left out.
func keys(t *testing.T, text string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return keys
		}
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := token.(string); ok && key != "small" && key != "fixed" && key != "median" && key != "min" && key != "max" {
			keys = append(keys, key)
		}
	}
}

func TestJSONNotANumber(t *testing.T) {
	r := scenarioResult{Rows: []policyResult{{Summary: sim.Summarise(nil)}}}
	r.Rows[0].Summary.Stats[3] = pace.Some(sim.Stat{Median: math.NaN()})
	if err := writeJSON(io.Discard, []scenarioResult{r}); err == nil {
		t.Error("writeJSON(NaN) = nil, want an error")
	}
}

func TestAsserts(t *testing.T) {
	base := []string{"sim", "-seeds=1", "-policy=none,backoff(factor=2)", "testdata/small.yaml", "emr"}
	for _, test := range []struct {
		assert string
		want   string // is in stderr; "": it holds
	}{
		{"none.retry_rate>0.5", ""},
		{"none.retry_rate < 0.5", "none.retry_rate < 0.5 does not hold in small: the median is 0."},
		{"backoff( factor=2).retry_rate<1", ""},
		{"none.max_sleep_s<=0", ""},
		{"none.max_sleep_s>=0", ""},
		{"none.max_sleep_s==0", ""},
		{"none.max_sleep_s!=0", "does not hold in small: the median is 0; "},
		{"none.max_sleep_s<0", "does not hold"},
		{"none.max_sleep_s>0", "does not hold"},
		{"none.finish_s>1", "none.finish_s>1 does not hold in small: it is null"},
		{"emr/none.finish_s>1", ""},
		{"small/none.finish_s>1", "it is null"},
		{"small/none.finish_s!=1", "it is null"},
		{"none.served==1000", "does not hold in small"},
		{"emr/none.served==1000", ""},
	} {
		stdout, stderr, code := play(t.Context(), append(base, "-assert", test.assert)...)
		want := 0
		if test.want != "" {
			want = 3
		}
		if code != want || !strings.Contains(stderr, test.want) || want == 0 && stderr != "" {
			t.Errorf("-assert %q: got code %d, stderr %q; want %d, ...%q...", test.assert, code, stderr, want, test.want)
		}
		if !strings.Contains(stdout, "small: ") || strings.Count(stderr, "\n") > 1 {
			t.Errorf("-assert %q: want the tables and at most one line, got %q and %q", test.assert, stdout, stderr)
		}
	}
	_, stderr, code := play(t.Context(), append(base, "-assert=emr/none.jain>2", "-assert=emr/none.jain==1", "-assert=emr/none.sent<9")...)
	if code != 3 || strings.Count(stderr, "does not hold") != 2 {
		t.Errorf("three asserts, two broken: got code %d, stderr %q", code, stderr)
	}
}

func TestParseFlags(t *testing.T) {
	names := []string{"emr", "testdata/small.yaml"}
	want, _, _ := play(t.Context(), "sim", "-json", "-seeds", "2", "-policy", "none", names[0], names[1])
	for _, args := range [][]string{
		{"sim", names[0], "-json", names[1], "-seeds=2", "-policy=none"},
		{"sim", names[0], names[1], "--seeds", "2", "--json", "--policy", "none"},
		{"sim", "--policy=none", "-json=true", "-seeds", "2", "--", names[0], names[1]},
	} {
		if got, stderr, code := play(t.Context(), args...); code != 0 || got != want {
			t.Errorf("throttle %q = %q (%s), want %q", args, got, stderr, want)
		}
	}
}

func TestSplitPolicies(t *testing.T) {
	for text, want := range map[string][]string{
		"a":                  {"a"},
		"a,b":                {"a", "b"},
		"a(x=1,y=2),b":       {"a(x=1,y=2)", "b"},
		"a(x=1,y=2),b(z=3),": {"a(x=1,y=2)", "b(z=3)", ""},
		"a),b":               {"a)", "b"},
	} {
		if got := splitPolicies(text); !slices.Equal(got, want) {
			t.Errorf("splitPolicies(%q) = %q, want %q", text, got, want)
		}
	}
}

// Each run that is over when the context ends is kept, and no more are begun.
func TestRunAllInterrupted(t *testing.T) {
	s, err := scenarioFile("testdata/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := readPolicies([]string{"none,backoff,fixed"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	most := 0
	r := runAll(ctx, s, policies, 4, 1, func(done, total int) {
		if most = done; done == 6 {
			cancel()
		}
		if total != 12 {
			t.Errorf("progress(%d, %d), want 12 in all", done, total)
		}
	})
	complete := 0
	for _, row := range r.Rows {
		complete += row.Seeds
	}
	if !r.Interrupted || complete != most || complete < 6 || complete == 12 {
		t.Errorf("interrupted after 6 of 12 runs: got %d rows, %d runs, interrupted %t; progress said %d", len(r.Rows), complete, r.Interrupted, most)
	}
}

func TestInterruptedTable(t *testing.T) {
	s, _ := sim.Find("emr")
	policies, _ := readPolicies([]string{"none,fixed"})
	r := runAll(t.Context(), s, policies, 3, 1, nil)
	if r.Interrupted || len(r.Rows) != 2 {
		t.Fatalf("runAll = %d rows, interrupted %t; want 2, false", len(r.Rows), r.Interrupted)
	}
	r.Rows[1].Seeds = 2
	var b strings.Builder
	if err := writeTables(&b, []scenarioResult{r, {Scenario: s}}, false); err != nil || !strings.Contains(b.String(), "\nfixed (2 of 3) ") {
		t.Errorf("writeTables = %v\n%s\nwant a row of 2 of 3", err, b.String())
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	html := filepath.Join(t.TempDir(), "x.html")
	stdout, stderr, code := play(ctx, "sim", "-seeds=2", "-policy=none", "emr", "heroku", "-html", html, "-assert", "none.jain<0")
	if want := "throttle: interrupted: 0 of 4 runs\n"; code != 1 || stdout != "" || stderr != want {
		t.Errorf("interrupted: got code %d, stdout %q, stderr %q; want 1, nothing, %q", code, stdout, stderr, want)
	}
}

// The same seeds give the same bytes, on however many cores.
func TestRunAllIsDeterministic(t *testing.T) {
	args := []string{"sim", "-json", "-seeds=6", "-policy=backoff-jitter,aimd", "testdata/small.yaml"}
	first, _, _ := play(t.Context(), args...)
	for range 3 {
		if again, _, _ := play(t.Context(), args...); again != first {
			t.Fatalf("throttle %q = %q, then %q", args, first, again)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe is broken") }

func TestBrokenOutput(t *testing.T) {
	err := run(t.Context(), []string{"sim", "-seeds=1", "-policy=none", "emr"}, nil, broken{}, io.Discard)
	if err == nil || exit(err, io.Discard) != 1 || !strings.Contains(err.Error(), "pipe is broken") {
		t.Errorf("run into a broken pipe = %v, want a failure that says so", err)
	}
}

// Calls that were lost count in no measure: it must be said.
func TestOverflowIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.yaml")
	text := "name: o\nduration: 5m\nserver: {rate: 1/s}\nclients: [{processes: 1, workers: 1, arrivals: 100/s}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy=backoff", path)
	if code != 0 || !strings.Contains(stderr, "o: under backoff, ") || !strings.Contains(stderr, "10,000 queued") {
		t.Errorf("got code %d, stderr %q; want 0 and a word on lost calls", code, stderr)
	}
}

func TestHTML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.html")
	_, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy=none", "emr", "-html", path)
	if code != 0 || stderr != "" {
		t.Fatalf("-html: got code %d, stderr %q", code, stderr)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "emr") {
		t.Errorf("-html wrote %d bytes (%v), want a page about emr", len(text), err)
	}
}

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.00012: "0.000", 0.0312: "0.031", 0.9994: "0.999", 0.9996: "1.00", 1.234: "1.23",
		9.994: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 1234.5: "1234", 1e6: "1000000",
	} {
		if got := figure(x); got != want {
			t.Errorf("figure(%v) = %s, want %s", x, got, want)
		}
	}
}

// Colours are outside of the alignment: without them the table is the same.
func TestColour(t *testing.T) {
	s, _ := sim.Find("emr")
	policies, _ := readPolicies([]string{"none,fixed"})
	r := []scenarioResult{runAll(t.Context(), s, policies, 2, 1, nil)}
	var plain, colour strings.Builder
	if err := errors.Join(writeTables(&plain, r, false), writeTables(&colour, r, true)); err != nil {
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
