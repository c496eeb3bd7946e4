package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	mostFileLines     = 400
	mostFunctionLines = 52
	mostTestLines     = 70 // of a function of a test
	mostReadmeLines   = 200
	mostFolderFiles   = 25 // of code
	mostRootFiles     = 14
	mostRootTypes     = 14 // exported
	mostDocLines      = 60 // of go doc -short
	// ninetieth is how long nine in ten functions of the code may be at most.
	ninetieth = 24
)

func lines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// functionLines are the lengths of the functions of a file.
func functionLines(fset *token.FileSet, f *ast.File) (all []int) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			all = append(all, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1)
		}
	}
	return all
}

// longFunctions are the functions of a file that have more than most lines.
func longFunctions(fset *token.FileSet, f *ast.File, most int) (found []breach) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := fset.Position(fn.Pos()), fset.Position(fn.End())
		if to.Line-from.Line+1 > most {
			found = append(found, breach{from, "size", "function " + fn.Name.Name + " is too long"})
		}
	}
	return found
}

// TestHouseFolders: a folder is one concept, and the root is for callers only.
func TestHouseFolders(t *testing.T) {
	files := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			files[s.pkg]++
		}
	}
	for folder, n := range files {
		most := mostFolderFiles
		if folder == "." {
			most = mostRootFiles
		}
		if n > most {
			t.Errorf("folder %s has %d code files, want at most %d", folder, n, most)
		}
	}
}

// TestHouseSurface: the exported names of a package fit on a page.
func TestHouseSurface(t *testing.T) {
	folders := map[string]string{} // with code for others, and the modules they are in
	for _, s := range sources(t) {
		if _, ok := layers[s.pkg]; ok && !s.test && !strings.Contains(s.pkg, "internal") {
			folders[s.pkg] = s.module
		}
	}
	for folder, mod := range folders {
		cmd := exec.Command("go", "doc", "-short", ".")
		cmd.Dir = folder
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("go doc -short of %s (module %s): %v: %s", folder, mod, err, text)
			continue
		}
		if n := lines(text); n > mostDocLines || n == 0 {
			t.Errorf("go doc -short of %s has %d lines, want 1 to %d", folder, n, mostDocLines)
		}
		if n := strings.Count("\n"+string(text), "\ntype "); folder == "." && n > mostRootTypes {
			t.Errorf("the root has %d exported types, want at most %d:\n%s", n, mostRootTypes, text)
		}
	}
}

// TestHouseSizes: what does not fit on a few screens is read by nobody.
func TestHouseSizes(t *testing.T) {
	fset := token.NewFileSet()
	var lengths []int // of the functions of the code
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, s.path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if ast.IsGenerated(f) {
			continue
		}
		if n := lines(text); n > mostFileLines {
			t.Errorf("%s has %d lines, want at most %d", s.path, n, mostFileLines)
		}
		most := mostFunctionLines
		if s.test {
			most = mostTestLines
		} else {
			lengths = append(lengths, functionLines(fset, f)...)
		}
		for _, b := range longFunctions(fset, f, most) {
			t.Errorf("%v, want at most %d lines", b, most)
		}
	}
	slices.Sort(lengths)
	if n := lengths[len(lengths)*9/10]; n > ninetieth {
		t.Errorf("one function in ten has more than %d lines, want at most %d", n, ninetieth)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Error(err)
	}
	if n := lines(readme); n >= mostReadmeLines {
		t.Errorf("README.md has %d lines, want under %d", n, mostReadmeLines)
	}
}

var (
	codeInMarkdown = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]+`")
	linkInMarkdown = regexp.MustCompile(`\]\(<?([^)\s>]+)|^\[[^\]]+\]:\s+(\S+)|(?:src|srcset|href)="([^"]+)"`)
	otherScheme    = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:|//)`)
)

// fileLinks are the targets of the links of a Markdown text that lead to files.
func fileLinks(text string) (links []string) {
	text = codeInMarkdown.ReplaceAllString(text, "")
	for _, line := range strings.Split(text, "\n") {
		for _, m := range linkInMarkdown.FindAllStringSubmatch(line, -1) {
			link, _, _ := strings.Cut(m[1]+m[2]+m[3], "#")
			if link != "" && !otherScheme.MatchString(link) {
				links = append(links, link)
			}
		}
	}
	return links
}

// TestHouseLinks: every file that a Markdown file links to is there.
func TestHouseLinks(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, link := range fileLinks(string(text)) {
			target := filepath.Join(filepath.Dir(name), filepath.FromSlash(link))
			if strings.HasPrefix(link, "/") {
				target = filepath.FromSlash(link[1:])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestHouseBites(t *testing.T) {
	const text = "[a](a.md#x) ![b](<b.svg>) [c](https://c.org/d.md) [d](#d) `[e](e.md)`\n" +
		"```go\n[f](f.md)\n```\n[g]: g/\n<img src=\"h.png\" width=\"1\"> [i](mailto:i@j.k) [l](/l.md \"title\")\n"
	want := "a.md b.svg g/ h.png /l.md"
	if got := strings.Join(fileLinks(text), " "); got != want {
		t.Errorf("fileLinks(%q) = %s, want %s", text, got, want)
	}
	for n, long := range map[int]bool{mostFunctionLines: false, mostFunctionLines + 1: true} {
		src := "package x\n\n// F is here.\nfunc F() {" + strings.Repeat("\n", n-1) + "}\n"
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := longFunctions(fset, f, mostFunctionLines)
		if (len(found) > 0) != long {
			t.Errorf("longFunctions of %d lines = %v, want any: %t", n, found, long)
		}
	}
}
