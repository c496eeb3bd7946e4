package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseRefuses: wrong usage is one line and exit code 2, and changes nothing.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.git("tag", "throttlegrpc/v1.2.0")
	change := func() {
		if err := os.WriteFile(filepath.Join(r.dir, "new.txt"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(log), "## [Unreleased]\n")
	for _, test := range []struct {
		args   string
		want   string // is in the line
		before func()
	}{
		{"", "write scripts/release [-n] VERSION", nil},
		{"v1.0.0 v1.0.1", "write scripts/release [-n] VERSION", nil},
		{"1.0.0", "version 1.0.0: write it as v1.2.3", nil},
		{"v1.0", "version v1.0: write it as v1.2.3", nil},
		{"v1.02.0", "version v1.02.0: write it as v1.2.3", nil},
		{"v1.0.0-rc.01", "version v1.0.0-rc.01: write", nil},
		{"v1.0.0+linux", "version v1.0.0+linux: write", nil},
		{"v2.0.0", "version v2.0.0: a module path without /v2", nil},
		{"v0.0.0-20260102030405-0123456789ab", "the form of a commit without a tag", nil},
		{"v1.2.0", "tag throttlegrpc/v1.2.0 exists", nil},
		{"v1.0.0", "the checkout has changes", change},
		{"-n v1.0.0", "the checkout has changes", nil},
		{"v1.0.0", "CHANGELOG.md says nothing under [Unreleased]", func() {
			r.git("clean", "--quiet", "--force")
			r.edit("CHANGELOG.md", string(log), head+"## [Unreleased]\n\n### Added\n\n## [0.9.0] - 2026-01-02\n\n- All.\n")
			r.git("commit", "--quiet", "--all", "--message", "Empty")
		}},
		{"v0.9.0", "CHANGELOG.md has a section [0.9.0] already", nil},
		{"v1.0.0", "git does not know the committer", func() {
			r.env = append(r.env, "GIT_COMMITTER_NAME=")
		}},
	} {
		if test.before != nil {
			test.before()
		}
		before := r.git("for-each-ref") + r.git("status", "--porcelain") + r.git("count-objects")
		out, code := r.release(strings.Fields(test.args)...)
		if code != 2 || !strings.Contains(out, test.want) || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "release: ") {
			t.Errorf("scripts/release %s: code %d, %q; want 2 and one line with %q", test.args, code, out, test.want)
		}
		if after := r.git("for-each-ref") + r.git("status", "--porcelain") + r.git("count-objects"); after != before {
			t.Errorf("scripts/release %s changed the repository from\n%s\nto\n%s", test.args, before, after)
		}
	}
}

// TestReleaseRefusesModules: what only a published module must not have is
// refused before there is a tag.
func TestReleaseRefusesModules(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, test := range []struct{ name, old, with, want string }{
		{"throttleaws/go.mod", "\nreplace ", "\nreplace github.com/aws/smithy-go => ../smithy\n\nreplace ", "throttleaws/go.mod has a replace: replace github.com/aws/smithy-go"},
		{"throttleaws/go.mod", "\trequire (\n", "", "throttleaws/go.mod requires " + module + "/bench, which is not published"},
	} {
		if test.with == "" {
			test.old, test.with = "require (\n", "require (\n\t"+module+"/bench v0.0.0\n"
		}
		r.edit(test.name, test.old, test.with)
		r.git("commit", "--quiet", "--all", "--message", "Fault")
		out, code := r.release("v1.0.0")
		if code != 1 || !strings.Contains(out, test.want) || r.git("tag") != "" {
			t.Errorf("scripts/release with %q: code %d, tags %q\n%s\nwant 1, none and %q", test.with, code, r.git("tag"), out, test.want)
		}
		r.git("reset", "--quiet", "--hard", "HEAD~1")
	}
}
