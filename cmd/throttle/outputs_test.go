package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A dash in place of a file is standard output, and the page all that is there.
func TestPagesOnStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args        []string
		begin, says string
	}{
		{[]string{"sim", "-html", "-"}, "<!doctype html>", "emr"},
		{[]string{"sim", "-svg", "-"}, "<svg", "emr: throttled answers so far"},
		{[]string{"sim", "scoreboard", "-md", "-"}, "# scoreboard", "## emr"},
		{[]string{"tune", "-policy=fixed(rate=1..9)", "-runs=20", "-svg", "-"}, "<svg", "</svg>"},
	} {
		args := append(c.args, "-seeds=1", "emr")
		if args[0] == "sim" {
			args = append(args, "-policy=none")
		}
		stdout, stderr, code := play(t.Context(), args...)
		begins := strings.HasPrefix(strings.ToLower(stdout), c.begin)
		ends := c.begin[0] != '<' || strings.HasSuffix(strings.TrimSpace(stdout), ">")
		if code != 0 || !begins || !ends || !strings.Contains(stdout, c.says) {
			t.Errorf("throttle %q: code %d, stderr %q, stdout %.60q...; want a page that begins with %s and has %s", args, code, stderr, stdout, c.begin, c.says)
		}
	}
	if files, err := filepath.Glob("*"); err != nil || len(files) > 0 {
		t.Errorf("files %q, %v; want none", files, err)
	}
}
