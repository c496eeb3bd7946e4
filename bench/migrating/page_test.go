// Package migrating compiles the code of docs/migrating.md, and tries what the
// page says of the libraries that it is about.
package migrating

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-redis/redis_rate/v10" // the page imports it, and nothing else does
	_ "github.com/redis/go-redis/v9"
)

const page = "../../docs/migrating.md"

// fence begins a block that has a name: a section, and before or after.
var fence = regexp.MustCompile("(?ms)^```go ([a-z]+)/(before|after)\n(.*?)^```$")

// A block is one piece of code of the page.
type block struct {
	section, side string
	line          int // of its first line
	code          string
}

func blocks(text string) (all []block) {
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, block{
			text[m[2]:m[3]], text[m[4]:m[5]], 1 + strings.Count(text[:m[6]], "\n"), text[m[6]:m[7]],
		})
	}
	return all
}

// usual are the packages that the page uses without importing them.
var usual = func() map[string]string {
	const ours = "github.com/throttle-go/throttle"
	all := map[string]string{"http": "net/http", "throttle": ours}
	for _, name := range []string{"context", "errors", "sync", "time"} {
		all[name] = name
	}
	for _, name := range []string{"limit", "memory", "pace", "store", "throttlehttp"} {
		all[name] = ours + "/" + name
	}
	return all
}()

// source makes a Go file of b, whose lines are those of the page.
func (b block) source() string {
	var s strings.Builder
	s.WriteString("package p\n\n")
	for name, path := range usual {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(b.code) {
			fmt.Fprintf(&s, "import %q\n", path)
		}
	}
	fmt.Fprintf(&s, "//line docs/migrating.md:%d:1\n%s", b.line, b.code)
	return s.String()
}

// yours is what the page leaves to its readers.
const yours = `package p

import (
	"context"
	"errors"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

var (
	perMinute  = limit.Limit{Count: 100, Period: time.Minute}
	errTooMany = errors.New("429")
	%s
)

func describe(context.Context, string) error { return nil }

func get(context.Context, string) (body string, status int, err error) { return "", 0, nil }

var _, _, _, _ = describe, get, perMinute, errTooMany
`

// files are the files of the package that is made of b.
func (b block) files() map[string]string {
	own := "shared = new(memory.Store)"
	if strings.Contains(b.code, "var shared ") {
		own = "_ = new(memory.Store)"
	}
	return map[string]string{b.side + ".go": b.source(), "yours.go": fmt.Sprintf(yours, own)}
}

// compile builds and vets a package for each block, in a module that requires what
// this one does.
func compile(t *testing.T, all []block) (output string, err error) {
	t.Helper()
	module := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(module, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, absolute(t, string(text)))
	}
	for _, b := range all {
		for name, text := range b.files() {
			write(filepath.Join(b.section, b.side, name), text)
		}
	}
	cmd := exec.Command("go", "vet", "./...")
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// absolute is a go.mod of the folder above, to be used elsewhere.
func absolute(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)=> (\.\S+)$`).ReplaceAllStringFunc(text, func(to string) string {
		path, err := filepath.Abs(filepath.Join("..", strings.TrimPrefix(to, "=> ")))
		if err != nil {
			t.Fatal(err)
		}
		return "=> " + path
	})
}

func read(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n```go\n")); n > 0 {
		t.Errorf("%d blocks have no name; write ```go SECTION/before", n)
	}
	return blocks(string(text))
}

func TestPageCompiles(t *testing.T) {
	all := read(t)
	if len(all) < 20 {
		t.Errorf("found %d blocks, want 20 or more", len(all))
	}
	for _, b := range all {
		if neat, err := format.Source([]byte(b.code)); err != nil || string(neat) != b.code {
			t.Errorf("the block %s/%s is not as gofmt writes it: %v", b.section, b.side, err)
		}
	}
	if out, err := compile(t, all); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A reader's callers need no change: what a section declares before, it declares
// after.
func TestPageKeepsSignatures(t *testing.T) {
	declared := map[string][]string{} // by section
	for _, b := range read(t) {
		was, isAfter := declared[b.section]
		now := signatures(t, b)
		switch {
		case b.side == "before" && isAfter:
			t.Errorf("%s: two blocks are its before", b.section)
		case b.side == "after" && !slices.Equal(was, now):
			t.Errorf("%s: before declares %q, after %q", b.section, was, now)
		case len(now) == 0:
			t.Errorf("%s/%s declares no exported function", b.section, b.side)
		}
		declared[b.section] = now
	}
}

// signatures are the exported functions of b, sorted.
func signatures(t *testing.T, b block) (all []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", b.source(), parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%s/%s: %v", b.section, b.side, err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() {
			var s strings.Builder
			if err := printer.Fprint(&s, fset, fn.Type); err != nil {
				t.Fatal(err)
			}
			all = append(all, fn.Name.Name+s.String())
		}
	}
	slices.Sort(all)
	return all
}

// TestPageBites: code that does not compile is found, at its line.
func TestPageBites(t *testing.T) {
	text := "# A\n\n```go a/before\nimport \"golang.org/x/time/rate\"\n\nfunc F() *rate.Limiter { return rate.New(1) }\n```\n"
	out, err := compile(t, blocks(text))
	if err == nil || !strings.Contains(out, "migrating.md:6") || !strings.Contains(out, "rate.New") {
		t.Errorf("compile = %v, %s; want that rate.New is undefined in line 6", err, out)
	}
}
