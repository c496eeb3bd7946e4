package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestMain lets the test binary be the program, for tests of exit codes.
func TestMain(m *testing.M) {
	if os.Getenv("THROTTLE_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is the program as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(os.Environ(), "THROTTLE_AS_PROGRAM=1")
	return c
}

// play runs the program in this process and returns what it wrote.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return clitest.Play(ctx, run, args...)
}

// An empty name of a file, as by a variable that is not set, is said to be empty.
func TestEmptyName(t *testing.T) {
	for _, args := range [][]string{
		{"rules", ""}, {"import", "envoy", ""}, {"check", ""}, {"serve", ""}, {"replay", "-rules", "", "a.log"}, {"replay", "-suggest", "address", ""},
	} {
		stdout, stderr, code := play(t.Context(), args...)
		if want := args[0] + ": the name of a file is empty"; code != 2 || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("throttle %q: code %d, stdout %q, stderr %q; want 2, nothing, ...%s...", args, code, stdout, stderr, want)
		}
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	long := make([]string, 101)
	for i := range long {
		long[i] = "heroku"
	}
	many := strings.Repeat("none,", 100) + "none"
	for _, test := range []struct {
		args []string
		want string // is in stderr
	}{
		{nil, "no command"},
		{[]string{"simm"}, "command simm is not known; did you mean sim?\n"},
		{[]string{"a\nb"}, `command "a\nb" is not known`},
		{[]string{"help", "nothing"}, "command nothing is not known"},
		{[]string{"-seeds", "1", "sim"}, "flag -seeds before the command; write 'throttle sim -seeds ...'"},
		{[]string{"--seeds=1", "tune", "sim"}, "flag --seeds before the command; write 'throttle sim --seeds ...'"},
		{[]string{"-v"}, "flag -v before the command; write 'throttle COMMAND -v ...'"},
		{[]string{"sim", "-html", "-", "-json"}, "-json and -html -: only one can go to standard output; write -html FILE"},
		{[]string{"sim", "-svg=-", "-html=-"}, "-html - and -svg -: only one can go"},
		{[]string{"sim", "scoreboard", "-md=-", "-json"}, "-json and -md -: only one can go"},
		{[]string{"tune", "-svg=-", "-json"}, "-json and -svg -: only one can go"},
		{[]string{"sim", "-x"}, "flag -x is not known; run 'throttle sim -h'\n"},
		{[]string{"sim", "heroku", "--polcy=1"}, "flag -polcy is not known; did you mean -policy?\n"},
		{[]string{"sim", "-seeds"}, "needs an argument"},
		{[]string{"sim", "-seeds=0"}, "-seeds 0: must be from 1 to 10000"},
		{[]string{"sim", "-seeds", "-3"}, "-seeds -3: must be"},
		{[]string{"sim", "-seeds=10001"}, "-seeds 10001: must be"},
		{[]string{"sim", "-seeds=many"}, `"many"`},
		{[]string{"sim", "-seed=-1"}, `"-1"`},
		{[]string{"sim", "-policy", "best"}, "policy \"best\" is not known; known are none"},
		{[]string{"sim", "-policy", "none,"}, "policy \"\" is not known"},
		{[]string{"sim", "-policy", "none,none"}, "none occurs twice"},
		{[]string{"sim", "-policy", "backoff(factor=2)", "-policy", "backoff( factor = 2 )"}, "occurs twice"},
		{[]string{"sim", "-policy", "backoff(factor=x)"}, "must be a number"},
		{[]string{"sim", "-policy", "backoff(factor=2"}, "parentheses do not match"},
		{[]string{"sim", "-policy", many}, "101 policies; at most 100"},
		{append([]string{"sim"}, long...), "101 scenarios; at most 100"},
		{[]string{"sim", "nowhere"}, "scenario nowhere is not known and there is no such file; known are heroku, heroku-clear"},
		{[]string{"sim", "nowhere.yaml"}, "no such file"},
		{[]string{"sim", ""}, `scenario "" is not known`},
		{[]string{"sim", "emr", "emr"}, "two scenarios are called emr"},
		{[]string{"sim", "internal/sim/testdata/small.yaml", "internal/sim/testdata/../testdata/small.yaml"}, "two scenarios are called small"},
		{[]string{"sim", dir}, "is a directory; name a file\n"},
		{[]string{"sim", "--", "-json"}, "scenario -json is not known"},
		{[]string{"sim", "--", "emr", "-json"}, "scenario -json is not known"},
		{[]string{"sim", "-html", filepath.Join(dir, "no", "x.html")}, "no: no such file or directory\n"},
		{[]string{"sim", "-svg", filepath.Join(dir, "no", "x.svg")}, "-svg: cannot write to "},
		{[]string{"sim", "-svg", filepath.Join(dir, "x.svg"), "emr", "heroku"}, "-svg: a picture is of one scenario, not of 2"},
		{[]string{"sim", "-html", dir}, "is a directory; name a file"},
		{[]string{"sim", "-assert", "adaptive"}, "write [SCENARIO/]POLICY.MEASURE"},
		{[]string{"sim", "-assert", "adaptive.retry_rate=1"}, "write [SCENARIO/]"},
		{[]string{"sim", "-assert", "adaptive.retry_rate<x"}, "x is not a number"},
		{[]string{"sim", "-assert", "adaptive.retry_rate<NaN"}, "NaN is not a number"},
		{[]string{"sim", "-assert", "adaptive.retry_rate<inf"}, "inf is not a number"},
		{[]string{"sim", "-assert", "best.retry_rate<1"}, "policy \"best\" is not known"},
		{[]string{"sim", "-assert", "adaptive.best<1"}, "measure best is not known; known are retry_rate"},
		{[]string{"sim", "-assert", "emr/adaptive.retry_rate<1"}, "scenario emr is not among those to run"},
		{[]string{"sim", "-policy", "none", "-assert", "adaptive.retry_rate<1"}, "policy adaptive is not among those to run"},
		{[]string{"sim", "-assert", "backoff(factor=2).retry_rate<1"}, "policy backoff(factor=2) is not among those to run"},
	} {
		stdout, stderr, code := play(t.Context(), test.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("throttle %q:\ngot code %d, stdout %q, stderr %q\nwant code 2, nothing, ...%q...", test.args, code, stdout, stderr, test.want)
		}
		if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "throttle: ") {
			t.Errorf("throttle %q: got stderr %q, want one line", test.args, stderr)
		}
	}
}

// TestMeant: a name that is not known is answered with the one that was likely meant.
func TestMeant(t *testing.T) {
	for typed, want := range map[string]string{
		"Gatway":                               "command Gatway is not known; did you mean gateway?",
		"bogus":                                "command bogus is not known; run 'throttle help'",
		"gateway -limits":                      "gateway: flag -limits is not known; did you mean -limit?",
		"sim survey -x":                        "sim survey: flag -x is not known; run 'throttle sim survey -h'",
		"sim emrshared":                        "sim: scenario emrshared is not known and there is no such file; did you mean emr-shared?",
		"sim -policy adaptve emr":              `sim: -policy: policy "adaptve" is not known; did you mean adaptive?`,
		"sim -policy cenkalti-backof emr":      `sim: -policy: policy "cenkalti-backof" is not known; did you mean cenkalti-backoff?`,
		"sim -assert adaptive.retryrate<1 emr": "sim: -assert adaptive.retryrate<1: measure retryrate is not known; did you mean retry_rate?",
	} {
		if stdout, stderr, code := play(t.Context(), strings.Fields(typed)...); code != 2 || stdout != "" || stderr != "throttle: "+want+"\n" {
			t.Errorf("throttle %s: %d, %q, %q; want 2 and %q", typed, code, stdout, stderr, want)
		}
	}
}

// TestHelpOfMoreWords: the help of a part of a command, such as the survey of sim, is
// not taken for that of the command.
func TestHelpOfMoreWords(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"help", "sim", "survey"}, "throttle: help: survey is too much; write 'throttle sim survey -h'\n"},
		{[]string{"-h", "find", "-limit"}, "throttle: help: -limit is too much; write 'throttle find -limit -h'\n"},
	} {
		if stdout, stderr, code := play(t.Context(), test.args...); code != 2 || stdout != "" || stderr != test.want {
			t.Errorf("%q: %d, %q, %q; want 2 and %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"help"}, []string{"Commands for owners of a service:\n  gateway ", "\n\nCommands for callers of limited APIs:\n  egress ", "\n  sim ", "Examples:\n  throttle gateway "}},
		{[]string{"-h"}, []string{"Commands for owners"}},
		{[]string{"help", "-h"}, []string{"Commands for owners"}},
		{[]string{"help", "--help"}, []string{"Commands for owners"}},
		{[]string{"help", "help"}, []string{"Commands for owners"}},
		{[]string{"--help"}, []string{"Commands for owners"}},
		{[]string{"help", "sim"}, []string{"-policy a,b", "Examples:\n  throttle sim\n"}},
		{[]string{"help"}, []string{"  demo ", "  tune ", "  serve   run a gateway", "  check   check the files", "  schema  print", "  find    find the load"}},
		{[]string{"help", "find"}, []string{"throttle find [flags] URL", "Examples:\n  throttle find http://127.0.0.1:3000/\n"}},
		{[]string{"help", "serve"}, []string{"throttle serve gateway.yaml"}},
		{[]string{"help", "check"}, []string{"-request 'METHOD PATH'"}},
		{[]string{"help", "tune"}, []string{"LOW..HIGH"}},
		{[]string{"help", "demo"}, []string{"Examples:\n  throttle demo\n"}},
		{[]string{"sim", "-h"}, []string{"-policy a,b"}},
		{[]string{"sim", "heroku", "--help"}, []string{"-policy a,b"}},
		{[]string{"sim", "-list"}, []string{"\nemr-shared           token-bucket of 4/s, burst 8; latency 100ms; 1×4 workers; 1×4 workers at 2m; 1×4 workers at 4m; 30m\n"}},
		{[]string{"sim", "-policies"}, []string{"\nbackoff: ", "\n  factor=1.2 ", "\nadaptive-informed: "}},
	} {
		stdout, stderr, code := play(t.Context(), test.args...)
		if code != 0 || stderr != "" {
			t.Errorf("throttle %q: got code %d, stderr %q; want 0 and nothing", test.args, code, stderr)
		}
		for _, want := range test.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("throttle %q: got\n%s\nwant ...%q...", test.args, stdout, want)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"help"}, 0},
		{[]string{"sim", "-seeds=1", "-policy=none", "internal/sim/testdata/small.yaml"}, 0},
		{[]string{"sim", "-seeds=0"}, 2},
		{[]string{"sim", "-seeds=1", "-policy=none", "internal/sim/testdata/small.yaml", "-assert", "none.retry_rate<0.02"}, 3},
	} {
		err := program(t, test.args...).Run()
		got := 0
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			got = e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("throttle %q exits with %d, want %d", test.args, got, test.want)
		}
	}
}
