package main

import (
	"os"
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

// What a command writes is neither a file that it reads, by whatever name, nor
// another that it writes, and a page or a picture is not written over a file that
// is none.
func TestOutputsOverInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	files := map[string]string{
		"a.log":    "192.0.2.1 - - [22/Nov/2026:19:14:21 +0100] \"GET / HTTP/1.1\" 200 5\n",
		"r.yaml":   "rules: [{name: r, key: address, limits: 2/min}]\n",
		"s.yaml":   "server: {rate: 4/s}\nduration: 1s\nclients: [{workers: 1}]\n",
		"t.log":    "1 200\n2 429\n",
		"old.html": "<!doctype html>\n",
		"p.txt":    "passwords",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.log", "link"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"replay -rules r.yaml -trace a.log a.log", "-trace: a.log is read"},
		{"replay -rules r.yaml -trace link a.log", "-trace: link is read"},
		{"replay -suggest address -o r.yaml -rules r.yaml a.log", "-o: r.yaml is read"},
		{"replay -suggest address -o new -trace ./new a.log", "-o and -trace: both to ./new"},
		{"sim -seeds 1 -policy none -html s.yaml s.yaml", "-html: s.yaml is read"},
		{"sim -seeds 1 -policy none -html old.html -svg old.html s.yaml", "-html and -svg: both to old.html"},
		{"sim scoreboard -seeds 1 -policy none -md s.yaml s.yaml", "-md: s.yaml is read"},
		{"sim -html s.yaml", "-html: s.yaml is there and does not begin with <!doctype html>; name another file, or remove it"},
		{"sim -svg old.html emr", "-svg: old.html is there and does not begin with <svg; name another file, or remove it"},
		{"sim scoreboard -md s.yaml", "-md: s.yaml is there and does not begin with # Scoreboard; name another file, or remove it"},
		{"sim survey -md s.yaml", "-md: s.yaml is there and does not begin with # Survey; name another file, or remove it"},
		{"tune -policy fixed(rate=1..9) -svg s.yaml", "-svg: s.yaml is there and does not begin with <svg; name another file, or remove it"},
		{"find -html p.txt http://127.0.0.1:1/", "-html: p.txt is there and does not begin with <!doctype html>; name another file, or remove it"},
		{"replay -suggest address -o r.yaml a.log", "-o: r.yaml is there and was not written by replay -suggest; name another file, or remove it"},
		{"find -o r.yaml http://127.0.0.1:1/", "-o: r.yaml is there and was not written by find -o; name"},
		{"find -rules r.yaml http://127.0.0.1:1/", "-rules: names a file that is read, in other commands; the file of rules that find writes is -o FILE"},
		{"find -scenario s.yaml http://127.0.0.1:1/", "-scenario: s.yaml is there and was not written by find -scenario; name"},
		{"find -observe t.log -scenario s.yaml", "-scenario: s.yaml is there and was not written by find -limit; name"},
		{"tune -runs 20 -seeds 1 -policy fixed(rate=1..9) -svg s.yaml s.yaml", "-svg: s.yaml is read"},
		{"find -observe t.log -scenario t.log", "-scenario: t.log is read"},
		{"find -d @old.html -html old.html http://127.0.0.1:1/", "-html: old.html is read"},
		{"find -o new -scenario new http://127.0.0.1:1/", "-o and -scenario: both to new"},
	} {
		args := strings.Fields(c.args)
		_, stderr, code := play(t.Context(), args...)
		if code != 2 || !strings.HasPrefix(stderr, "throttle: "+args[0]+": "+c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("throttle %s: code %d, %q; want 2, %q in one line", c.args, code, stderr, c.want)
		}
	}
	for name, text := range files {
		if is, err := os.ReadFile(name); string(is) != text {
			t.Errorf("%s is %.40q, %v; want it as it was", name, is, err)
		}
	}
	if _, stderr, code := play(t.Context(), "replay", "-rules", "r.yaml", "-trace", "/dev/null", "a.log"); code != 0 {
		t.Errorf("to /dev/null: code %d, %q; want 0", code, stderr)
	}
}
