package main

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The list of licences has every module that a package of the program is in, and
// no other: go list knows them without the build info that the list is made of.
func TestVersionLicenses(t *testing.T) {
	stdout, err := program(t, "version", "-licenses").Output()
	if err != nil {
		t.Fatalf("throttle version -licenses: %v\n%s", err, stdout)
	}
	var got []string
	for line := range strings.Lines(string(stdout)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[2] == "UNKNOWN" {
			t.Errorf("throttle version -licenses: line %q, want a name, a version and a licence", line)
			continue
		}
		got = append(got, words[0])
	}
	list, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := append(strings.Fields(string(list)), "std", "uPlot")
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("throttle version -licenses lists\n%q\nthe program links\n%q", got, want)
	}
	full, err := program(t, "version", "-licenses", "-full").Output()
	if n := strings.Count(string(full), "\n==== "); err != nil || n != len(want) || len(full) < 1000*len(want)/2 {
		t.Errorf("throttle version -licenses -full: %d texts in %d bytes, %v; want %d texts", n, len(full), err, len(want))
	}
}

func TestVersion(t *testing.T) {
	for _, name := range []string{"version", "-version", "--version"} {
		stdout, err := program(t, name).Output()
		words := strings.Fields(string(stdout))
		if err != nil || len(words) != 4 || words[0] != "throttle" || words[2] != runtime.Version() || words[3] != runtime.GOOS+"/"+runtime.GOARCH {
			t.Errorf("throttle %s: %q, %v; want throttle, a version, %s and the platform", name, stdout, err, runtime.Version())
		}
	}
}
