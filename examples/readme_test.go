package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// usual are the packages that a fragment may use without importing them, and
// usualNames what it may use without declaring it, with the type that everyone
// expects. Other names in statements are the reader's own.
var usual = []string{
	"bytes", "context", "encoding/json", "errors", "fmt", "io", "log", "log/slog",
	"math/rand/v2", "net/http", "net/url", "os", "slices", "strings", "sync", "time",
	module, module + "/admit", module + "/limit", module + "/load", module + "/memory", module + "/pace",
	module + "/signal", module + "/sim", module + "/store", module + "/throttlehttp",
}

const (
	module     = "github.com/throttle-go/throttle"
	statements = "statements" // the package of a block that is no file and no declarations

	usualNames = "ctx context.Context, err error, w http.ResponseWriter, r *http.Request, req *http.Request"
)

// tolerated is what is no fault among statements: a name of the reader's own, and
// returning from a function of the reader's own.
var tolerated = regexp.MustCompile(`^(undefined: \w+|(too many|not enough) return values(?s:.*))$`)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// A block is Go code of a document.
type block struct {
	file string
	line int // of its first line
	code string
}

// blocks are the Go blocks of a Markdown text.
func blocks(file string, text []byte) (all []block) {
	for _, m := range goBlock.FindAllSubmatchIndex(text, -1) {
		all = append(all, block{file, 1 + bytes.Count(text[:m[2]], []byte("\n")), string(text[m[2]:m[3]])})
	}
	return all
}

// cutImports splits a fragment after its import declarations.
func cutImports(code string) (imports, rest string, paths []string) {
	const head = "package p\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", head+code, parser.ImportsOnly)
	if err != nil || len(f.Decls) == 0 {
		return "", code, nil
	}
	end := fset.Position(f.Decls[len(f.Decls)-1].End()).Offset - len(head)
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return code[:end], code[end:], paths
}

// declares are the names that a file of declarations would have; ok is false
// for statements.
func declares(code string) (names []string, ok bool) {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names, true
}

// nameOf is the name of a package, by its path.
func nameOf(imported string) string {
	if name := path.Base(imported); name != "v2" {
		return name
	}
	return path.Base(path.Dir(imported))
}

// source makes a whole Go file of a block. Declarations get the usual imports,
// statements a function around them as well. Lines are those of the document.
func (b block) source() string {
	at := func(line int) string { return fmt.Sprintf("\n//line %s:%d:1\n", b.file, line) }
	if regexp.MustCompile(`(?m)^package \w+`).MatchString(b.code) {
		return at(b.line)[1:] + b.code
	}
	imports, rest, paths := cutImports(b.code)
	taken, declarations := declares(rest)
	for _, p := range paths {
		taken = append(taken, nameOf(p))
	}
	var s strings.Builder
	if declarations {
		s.WriteString("package declarations\n")
	} else {
		s.WriteString("package " + statements + "\n")
	}
	for _, p := range usual {
		if declarations && !slices.Contains(taken, nameOf(p)) || !declarations && !slices.Contains(paths, p) {
			fmt.Fprintf(&s, "import %q\n", p)
		}
	}
	s.WriteString(at(b.line) + imports + "\n")
	if declarations {
		return s.String() + at(b.line+strings.Count(imports, "\n")) + rest
	}
	s.WriteString("func _(" + usualNames + ") { {" + at(b.line+strings.Count(imports, "\n")))
	return s.String() + rest + "\n} }\n"
}

// exports finds the compiled packages that the blocks import.
func exports(t *testing.T, paths []string) types.Importer {
	t.Helper()
	args := append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}, paths...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		imported, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[imported] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(imported string) (io.ReadCloser, error) {
		if compiled[imported] == "" {
			return nil, errors.New("no such package")
		}
		return os.Open(compiled[imported])
	})
}

// typeCheck is what is wrong with the blocks. What is merely unused is not.
func typeCheck(t *testing.T, all []block) (wrong []string) {
	fset := token.NewFileSet()
	var files []*ast.File
	imported := map[string]bool{}
	for _, b := range all {
		f, err := parser.ParseFile(fset, b.file, b.source(), parser.SkipObjectResolution)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		files = append(files, f)
		for _, spec := range f.Imports {
			if p, err := strconv.Unquote(spec.Path.Value); err == nil {
				imported[p] = true
			}
		}
	}
	if len(files) == 0 {
		return wrong
	}
	var tolerant bool
	conf := types.Config{Importer: exports(t, slices.Sorted(maps.Keys(imported))), Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && !e.Soft && !(tolerant && tolerated.MatchString(e.Msg)) {
			wrong = append(wrong, fmt.Sprintf("%s: %s", fset.Position(e.Pos), e.Msg))
		}
	}}
	for _, f := range files {
		tolerant = f.Name.Name == statements
		_, _ = conf.Check("p", fset, []*ast.File{f}, nil) // errors went to conf.Error
	}
	return wrong
}

// TestDocumentsCompile type-checks every Go block of the README and of docs/, but
// those of the tutorial, which are the files of programs: integration/tutorial
// builds and runs them.
func TestDocumentsCompile(t *testing.T) {
	names, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	for _, name := range append(names, "../README.md") {
		if filepath.Base(name) == "tutorial.md" {
			continue
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, blocks(name, text)...)
	}
	t.Logf("%d Go blocks in README.md and docs", len(all))
	for _, w := range typeCheck(t, all) {
		t.Error(w)
	}
}

func TestDocumentsBite(t *testing.T) {
	const document = "# Title\n```go\n%s\n```\n"
	for _, c := range []struct{ name, code, want string }{
		{"a program", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }", ""},
		{"a bad program", "package main\n\nfunc main() { fmt.Println() }", "a.md:5:15: undefined: fmt"},
		{"statements", "ctx, n := context.WithCancel(ctx)\nresp, err := client.Get(\"a\")\nreturn err", ""},
		{"a name that is ours", "throttle.Nothing()", "a.md:3:10: undefined: throttle.Nothing"},
		{"bad statements", "n := 1\n_ = n.m", "a.md:4:7: n.m undefined (type int has no field or method m)"},
		{"imports, then statements", "import \"os\"\n\nos.Exit(limit.Take)", "a.md:5:9: cannot use limit.Take"},
		{"declarations", "var limit = 1\n\nfunc f() error { return errors.New(\"a\") }", ""},
		{"bad declarations", "\n\ntype t struct{ a nothing }", "a.md:5:18: undefined: nothing"},
		{"what does not parse", "if { ... }", "a.md:3:"},
		{"no such import", "import \"github.com/throttle-go/throttle/none\"\n", "could not import"},
	} {
		all := blocks("a.md", fmt.Appendf(nil, document, c.code))
		if len(all) != 1 {
			t.Errorf("blocks of %s: got %d, want 1", c.name, len(all))
			continue
		}
		got := strings.Join(typeCheck(t, all), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: typeCheck = %q, want %q", c.name, got, c.want)
		}
	}
}
