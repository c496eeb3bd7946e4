package examples_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/internal/bubble"
)

const troubleshooting = "../docs/troubleshooting.md"

// Times of day depend on where the test runs, and waits and rates on chance.
var (
	clock = regexp.MustCompile(`\d\d:\d\d:\d\d`)
	waits = regexp.MustCompile(`(wait[ =])[0-9hmµs.]+`)
	rates = regexp.MustCompile(`[0-9.]+/s`)
)

// plain returns text without them.
func plain(text string) string {
	text = clock.ReplaceAllString(text, "TIME")
	text = waits.ReplaceAllString(text, "${1}WAIT")
	return rates.ReplaceAllString(text, "RATE")
}

// phrases are parts of messages that the page quotes in its tables.
var phrases = []string{
	"do not ask again", "slower than Timeout", "has not answered", "the Guard has no Store",
	"not known whether it was charged", "not executed",
}

func read(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile(troubleshooting)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// said are the lines of the text blocks of the page.
func said(t *testing.T) (lines []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```text\n(.*?)^```$").FindAllSubmatch(read(t), -1) {
		lines = append(lines, strings.Split(plain(strings.TrimSuffix(string(m[1]), "\n")), "\n")...)
	}
	return lines
}

// Every message on the page is one that its cause produces, to the letter.
func TestTroubleshooting(t *testing.T) {
	lines := said(t)
	for _, c := range texts {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				got := plain(c.text(t))
				i := slices.Index(lines, got)
				if i < 0 {
					t.Fatalf("the page does not say\n%s", got)
				}
				lines[i] = ""
			})
		})
	}
	literals := stringLiterals(t)
	for _, phrase := range phrases {
		if !strings.Contains(string(read(t)), "`"+phrase+"`") || !written(literals, phrase+"…") {
			t.Errorf("%q is not both on the page and in the code", phrase)
		}
	}
	for _, line := range lines {
		if line != "" && !written(literals, line) {
			t.Errorf("no code says %q: name what is variable by … or add its cause to this test", line)
		}
	}
}

// written reports whether a message with gaps is in the code, clause by clause.
func written(literals []string, line string) bool {
	if !strings.Contains(line, "…") {
		return false // whole messages are produced
	}
	clauses := regexp.MustCompile(`…|[:;] `).Split(line, -1)
	return !slices.ContainsFunc(clauses, func(clause string) bool {
		return !slices.ContainsFunc(literals, func(l string) bool { return strings.Contains(l, strings.TrimSpace(clause)) })
	})
}

// stringLiterals are those of the code of the library, no tests.
func stringLiterals(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "examples" || len(d.Name()) > 2 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					all = append(all, s)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
