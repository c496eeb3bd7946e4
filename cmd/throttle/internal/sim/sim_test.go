package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/sim"
)

// play runs the command, whose name is the first argument.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return clitest.Play(ctx, Run, args[1:]...)
}

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
		clitest.Golden(t, test.file, stdout)
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

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	html := filepath.Join(t.TempDir(), "x.html")
	stdout, stderr, code := play(ctx, "sim", "-seeds=2", "-policy=none", "emr", "heroku", "-html", html, "-assert", "none.jain<0")
	if want := "throttle: interrupted: 0 of 4 runs\n"; code != 1 || stdout != "" || stderr != want {
		t.Errorf("interrupted: got code %d, stdout %q, stderr %q; want 1, nothing, %q", code, stdout, stderr, want)
	}
}

// A scenario from standard input is that of a file, also on a scoreboard.
func TestStandardInput(t *testing.T) {
	file, err := os.ReadFile("testdata/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-seeds=2", "-policy=none", "-assert=small/none.jain>0"},
		{"scoreboard", "-seeds=2", "-policy=none"},
	} {
		want, _, _ := clitest.Play(t.Context(), Run, append(args, "testdata/small.yaml")...)
		var got, stderr strings.Builder
		if err := Run(t.Context(), append(args, "-"), bytes.NewReader(file), &got, &stderr); err != nil || want == "" || got.String() != want {
			t.Errorf("sim %q from standard input: %v, %s\n%s\nwant\n%s", args, err, stderr.String(), got.String(), want)
		}
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

func TestBrokenOutput(t *testing.T) {
	err := Run(t.Context(), []string{"-seeds=1", "-policy=none", "emr"}, nil, clitest.BrokenPipe{}, io.Discard)
	if err == nil || exit.Code(err, io.Discard) != 1 || !strings.Contains(err.Error(), "pipe is broken") {
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
