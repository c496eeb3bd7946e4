package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// What is wrong with a file is told with its place, and ends with exit code 2.
func TestRules(t *testing.T) {
	good := `// who is limited by what
{
  "version": "7", "deny": "203.0.113.0/24", /* abuse */
  "rules": [
    {"name": "a", "key": "address", "limits": "10/s sliding-log"}, // exact
    {"name": "b", "shadow": true, "key": "customer", "limits": "5/s"},
    {"name": "c", "off": true, "limits": "0/s"}
  ]
}`
	for _, x := range []struct {
		text string
		args []string
		code int
		want string
	}{
		{good, []string{"-known", "customer"}, 0, "FILE: good: version 7, 3 rules (1 shadow, 1 off), 1 entry in deny and allow\n"},
		{good, nil, 2, "throttle: FILE:6:42: rules[1].key[0]: unknown part \"customer\"; write address, client, header:NAME, host, method, path, path:N, of a descriptor domain, descriptor, entry:KEY; name what the program knows by -known\n"},
		{"version: \"8\"\nrules:\n  - {name: a, key: address, limits: 10/s}\n", nil, 0, "FILE: good: version 8, 1 rule\n"},
		{good, []string{"-known", "customer,,b"}, 2, "throttle: rules: -known customer,,b: the program names a value \"\"; it must be letters"},
		{"rules:\n  - {name: a, limits: x}\n", nil, 2, "throttle: FILE:2:23: rules[0].limits: "},
		{"{\n \"rules\": [{\"name\": \"a\", \"limits\": \"10/fortnight\"}]}", nil, 2, "throttle: FILE:2:36: rules[0].limits: "},
		{"{\n /* not closed", nil, 2, "throttle: FILE:2:2: a comment without end"},
	} {
		file := filepath.Join(t.TempDir(), "rules.json")
		if err := os.WriteFile(file, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := clitest.Play(t.Context(), Run, append(x.args, file)...)
		want := strings.ReplaceAll(x.want, "FILE", file)
		if code != x.code || !strings.HasPrefix(stdout+stderr, want) || strings.Count(stdout+stderr, "\n") != 1 {
			t.Errorf("rules %q of\n%s\n got %d, %s%s\nwant %d, %s", x.args, x.text, code, stdout, stderr, x.code, want)
		}
	}
	for _, x := range []struct {
		args []string
		code int
	}{{nil, 2}, {[]string{"a", "b"}, 2}, {[]string{"-x"}, 2}, {[]string{"/no/such/file"}, 2}, {[]string{"-"}, 2}, {[]string{"-h"}, 0}} {
		if _, stderr, code := clitest.Play(t.Context(), Run, x.args...); code != x.code {
			t.Errorf("rules %q ends with %d, %s; want %d", x.args, code, stderr, x.code)
		}
	}
}
