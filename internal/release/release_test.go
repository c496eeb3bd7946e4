// Package release tests that what scripts/release makes can be installed and
// required, without publishing anything.
package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// program is the folder of the program's module.
const program = "cmd/throttle"

// private are the modules of go.work that are never published.
var private = []string{"bench", "examples", "examples/dynamodb", "examples/jetstream", "examples/kafka-cassandra", "integration"}

// TestRelease makes v1.0.0 of the files as they are now, and uses it as others
// would; then it tries what a second release may change.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	folders := r.published()
	main := r.git("rev-parse", "main")
	out, code := r.release("v1.0.0")
	if code != 0 {
		t.Fatalf("scripts/release v1.0.0: code %d\n%s", code, out)
	}
	var want []string
	for _, folder := range folders {
		want = append(want, tag(folder, "v1.0.0"))
	}
	slices.Sort(want)
	if got := strings.Fields(r.git("tag", "--list")); !slices.Equal(got, want) {
		t.Errorf("tags %q, want %q", got, want)
	}
	if now := r.git("rev-parse", "main"); now != main || r.git("status", "--porcelain") != "" {
		t.Errorf("the release moved main from %s to %s, or left changes: %s", main, now, r.git("status", "--porcelain"))
	}
	r.git("merge", "--quiet", "--ff-only", "v1.0.0~1")
	if log := r.git("show", "main:CHANGELOG.md"); !regexp.MustCompile(`(?m)^## \[Unreleased\]\n\n## \[1\.0\.0\] - \d{4}-\d\d-\d\d$`).MatchString(log) {
		t.Errorf("CHANGELOG.md begins\n%.400s\nwant [Unreleased] and below it [1.0.0] with the date", log)
	}
	t.Run("Modules", func(t *testing.T) {
		for _, folder := range folders {
			if err := checkModule(r.pack(folder, "v1.0.0"), "v1.0.0"); err != nil {
				t.Error(err)
			}
		}
	})
	u := newUser(t, r)
	t.Run("Install", u.installs)
	t.Run("Get", u.gets)
	t.Run("Beside", u.getsBeside)
	t.Run("Broken", func(t *testing.T) { broken(t, r, u) })
	t.Run("Second", func(t *testing.T) { second(t, r) })
}

// long skips what compiles for minutes where nothing is compiled yet.
func long(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") == "" {
		t.Skip("NOT INSTALLED, NOT RELEASED AGAIN: set THROTTLE_INTEGRATION=1, as make integration does")
	}
}

// installs installs the program in an empty folder.
func (u user) installs(t *testing.T) {
	long(t)
	dir := t.TempDir()
	if out, err := u.in(t, dir, "go", "install", module+"/"+program+"@v1.0.0"); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	out, err := u.in(t, dir, filepath.Join(u.bin, "throttle"), "version")
	want := fmt.Sprintf("throttle v1.0.0 %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if err != nil || out != want {
		t.Errorf("throttle version: %q, %v; want %q", out, err, want)
	}
	out, err = u.in(t, dir, filepath.Join(u.bin, "throttle"), "version", "-licenses")
	if err != nil || !regexp.MustCompile(`(?m)^`+module+` +v1\.0\.0 +Apache-2\.0$`).MatchString(out) {
		t.Errorf("throttle version -licenses: %v\n%s\nwant %s at v1.0.0", err, out, module)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("go install left %v, %v in the folder; want nothing", left, err)
	}
}

// gets requires the library in a new module and compiles against it.
func (u user) gets(t *testing.T) {
	dir := t.TempDir()
	const src = "package main\n\nimport \"" + module + "\"\n\nvar api throttle.Throttle\n\nfunc main() { _ = &api }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(src), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, {"get", module + "@v1.0.0"}, {"build", "-o", os.DevNull, "."}, {"mod", "tidy"}} {
		if out, err := u.in(t, dir, "go", args...); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	out, err := u.in(t, dir, "go", "mod", "edit", "-json")
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &mod)); err != nil {
		t.Fatalf("go mod edit -json: %v\n%s", err, out)
	}
	if len(mod.Require) != 1 || mod.Require[0].Path != module || mod.Require[0].Version != "v1.0.0" {
		t.Errorf("go get wrote the requirements %v, want %s v1.0.0 alone", mod.Require, module)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	want := regexp.MustCompile(`^` + module + ` v1\.0\.0 h1:\S+\n` + module + ` v1\.0\.0/go\.mod h1:\S+\n$`)
	if err != nil || !want.Match(sum) {
		t.Errorf("go.sum is %v\n%s\nwant the two lines of %s v1.0.0 alone", err, sum, module)
	}
}

// getsBeside requires modules beside the library, which is in the module cache already, in the
// ways that docs/troubleshooting.md shows: without a version, and with one once it was listed.
func (u user) getsBeside(t *testing.T) {
	dir := t.TempDir()
	page, grpc := module+"/throttlepage", module+"/throttlegrpc@v1.0.0"
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, {"get", module + "@v1.0.0"}, {"get", page}, {"list", "-m", grpc}, {"get", grpc}} {
		if out, err := u.in(t, dir, "go", args...); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
}

// broken publishes the program with faults: the tests above would notice.
func broken(t *testing.T, r *repo, u user) {
	u.proxies = u.proxies[:2] // that no module of ours is found elsewhere
	for version, test := range map[string]struct{ old, fault, says string }{
		"v1.0.1": {"\nrequire (", "\nreplace " + module + " => ../..\n\nrequire (", "replace"},
		"v1.0.2": {module + " v1.0.0", module + " v0.0.0", module + "@v0.0.0"},
	} {
		r.git("checkout", "--quiet", "--detach", "v1.0.0")
		r.edit(program+"/go.mod", test.old, test.fault)
		r.git("commit", "--quiet", "--all", "--message", version)
		r.git("tag", tag(program, version))
		if err := checkModule(r.pack(program, version), "v1.0.0"); err == nil {
			t.Errorf("checkModule says nothing of %q", test.fault)
		}
		out, err := u.in(t, t.TempDir(), "go", "install", module+"/"+program+"@"+version)
		if err == nil || !strings.Contains(out, test.says) {
			t.Errorf("go install with %q: %v\n%s\nwant an error about %q", test.fault, err, out, test.says)
		}
		r.git("tag", "--delete", tag(program, version))
	}
	r.git("checkout", "--quiet", "main")
}

// second tries further releases with changes of the API.
func second(t *testing.T, r *repo) {
	long(t)
	r.edit("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n### Added\n\n- `limit.Added`.\n")
	if err := os.WriteFile(filepath.Join(r.dir, "limit/added.go"), []byte("package limit\n\n// Added is new.\nfunc Added() {}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "Add to the API")
	check := func(code int, want string, args ...string) {
		t.Helper()
		tags := r.git("tag")
		out, got := r.release(args...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("scripts/release %s: code %d\n%s\nwant %d and %q", args, got, out, code, want)
		}
		if now := r.git("tag"); now != tags {
			t.Errorf("scripts/release %s: tags %q, before it %q", args, now, tags)
		}
	}
	check(0, "since v1.0.0: Compatible changes:\n- ./limit.Added: added", "-n", "v1.1.0")
	check(1, "adds to the API of v1.0.0, as said above; raise the second number of v1.0.1", "v1.0.1")
	r.git("rm", "-r", "--quiet", "autosleeper")
	r.git("commit", "--quiet", "--message", "Take from the API")
	check(1, "takes away from the API of v1.0.0, as said above; a v1 cannot", "v1.1.0")
}

// checkModule checks a packed module: its files as a module proxy gives them,
// and its requirements on the other modules of the project at the version.
func checkModule(files map[string]string, version string) error {
	mod := files["mod"]
	if !slices.Contains(strings.Fields(files["list"]), files["version"]) || files["zip"] == "" || !strings.Contains(files["info"], files["version"]) {
		return fmt.Errorf("%s: list %q, info %q, a zip of %d bytes", files["path"], files["list"], files["info"], len(files["zip"]))
	}
	if strings.Contains(mod, "=>") {
		return fmt.Errorf("%s: there is a replace in\n%s", files["path"], mod)
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)(`+module+`\S*) (\S+)`).FindAllStringSubmatch(mod, -1) {
		folder := strings.TrimPrefix(strings.TrimPrefix(m[1], module), "/")
		if m[2] != version || slices.Contains(private, folder) {
			return fmt.Errorf("%s requires %s %s, want a published module at %s", files["path"], m[1], m[2], version)
		}
	}
	return nil
}
