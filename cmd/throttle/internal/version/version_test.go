package version

import (
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// The file of licences is what the modules have now: every part that the
// program links on any platform, with its text.
func TestLicensesAreThoseOfTheModules(t *testing.T) {
	cmd := exec.Command("go", "run", "./licenses")
	cmd.Dir = "../../../../tools"
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	now, err := cmd.Output()
	if err != nil {
		t.Fatalf("tools/licenses: %v: %s", err, &stderr)
	}
	if string(now) != licenses {
		t.Errorf("licenses.txt has %d parts and %d bytes, the modules have %d and %d; run 'make licenses' and read what it changes",
			len(parse(licenses)), len(licenses), len(parse(string(now))), len(now))
	}
}

func TestLinked(t *testing.T) {
	known := parse("==== a/b - MIT\nx\n\n==== this is no head\n==== std - BSD-3-Clause\ny\n==== chart v1 MIT\nz\n")
	info := &debug.BuildInfo{
		GoVersion: "go1.26",
		Main:      debug.Module{Path: "program", Version: "v3.0.0"},
		Deps: []*debug.Module{
			{Path: "a/b", Version: "v1.0.0", Replace: &debug.Module{Path: "../b"}},
			{Path: "new", Version: "v0.1.0"},
		},
	}
	got := linked(info, known)
	want := []part{
		{"program", "v3.0.0", none, ""},
		{"a/b", "(devel)", "MIT", "x\n\n==== this is no head\n"},
		{"new", "v0.1.0", none, ""},
		{"std", "go1.26", "BSD-3-Clause", "y\n"},
		{"chart", "v1", "MIT", "z\n"},
	}
	if len(got) != len(want) {
		t.Fatalf("linked = %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("linked[%d] = %+v, want %+v", i, got[i], want[i])
		}
	}
	var out strings.Builder
	err := write(&out, got, true)
	if err == nil || !strings.Contains(err.Error(), "program, new;") {
		t.Errorf("write with two parts of no known licence: %v, want an error that names them", err)
	}
	for _, line := range []string{"new      v0.1.0   UNKNOWN\n", "\n==== chart v1 MIT\n\nz\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("write wrote\n%s\nwant ...%q...", &out, line)
		}
	}
}

func TestVersionUsage(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"now", "version: now: takes flags only; write 'throttle version'"},
		{"-full", "-full is for -licenses"},
		{"-v", "run 'throttle version -h'"},
	} {
		stdout, stderr, code := clitest.Play(t.Context(), Run, test.args)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("throttle version %s: code %d, stdout %q, stderr %q; want 2 and one line with %q", test.args, code, stdout, stderr, test.want)
		}
	}
}
