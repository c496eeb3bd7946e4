// Package arch holds the tests that keep the house: which package may import
// which, what a pure package may do, and how large things may become.
package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/throttle-go/throttle"

// purely are the packages that decide by values alone, from the lowest up.
var purely = []string{"limit", "load", "fit", "pace", "pace/peers", "signal", "sim"}

// layers is the import table: which of our packages the code of a package may
// import, tests left out. A package that is not here, nor below one of
// topFolders, is a breach: decide where it stands when you add it.
var layers = map[string][]string{
	"limit":      {},
	"load":       {},
	"fit":        {"limit"},
	"pace":       {"limit", "load"},
	"pace/peers": {"pace", "limit", "load"},
	"signal":     {"pace"},
	"sim":        purely,
	"sim/survey": {"sim", "limit", "pace"},

	"memory":        {"limit"},
	"throttleredis": {"limit"},
	"throttlesql":   {"limit"},
	"throttletest":  {"limit"},

	"store":         {"limit", "memory"},
	".":             append([]string{"store"}, purely...),
	"autosleeper":   append([]string{"."}, purely...),
	"worker":        append([]string{"."}, purely...),
	"rules":         {"store", "limit", "load"},
	"admit":         {"store", "memory", "rules", "limit", "load", "signal"},
	"throttlehttp":  transport,
	"throttlegrpc":  transport,
	"throttleaws":   transport,
	"throttleenvoy": transport,
	"throttlepage":  {".", "load", "pace"},
	"throttleotel":  {".", "admit", "rules", "store", "load", "pace", "throttleredis", "throttlesql"},

	"internal/list":          {},
	"internal/chart":         {},
	"internal/glob":          {},
	"internal/links":         {},
	"internal/near":          {},
	"internal/timeline":      {},
	"internal/arch":          {},
	"internal/bubble":        {},
	"internal/release":       {},
	"pace/internal/schedule": {},

	"throttleenvoy/internal/assign": {"limit"},
}

// transport is what an adapter of a transport may import: no implementation of a
// Store, which its user chooses.
var transport = append([]string{".", "admit", "rules", "store"}, purely...)

// small are things that some packages share, which import nothing of ours; and the
// decision of one package, which imports limit.
var small = map[string][]string{
	"internal/list":          {"load", ".", "store", "admit", "cmd/throttle"},
	"internal/glob":          {"rules", "cmd/throttle"},
	"internal/links":         {"rules", "cmd/throttle"},
	"internal/near":          {"rules", "cmd/throttle"},
	"pace/internal/schedule": {"pace", "pace/peers"},

	"throttleenvoy/internal/assign": {"throttleenvoy"},
}

// program may import all of ours, and is imported by nothing.
const program = "cmd/throttle"

// topFolders hold what stands on everything else.
var topFolders = []string{program, "bench", "examples", "integration", "tools"}

// A breach is one place that breaks a rule.
type breach struct {
	pos  token.Position
	rule string
	text string
}

func (b breach) String() string { return fmt.Sprintf("%s: %s: %s", b.pos, b.rule, b.text) }

// A source is one Go file of the repository. Paths are relative to its root.
type source struct {
	path   string // of the file
	pkg    string // folder of its package
	module string // folder of its module
	test   bool
}

// within tells whether folder is top or below it.
func within(folder, top string) bool {
	return top == "." || folder == top || strings.HasPrefix(folder, top+"/")
}

// sources are the Go files of all modules, those with build constraints too.
func sources(t *testing.T) (all []source) {
	t.Helper()
	modules := []string{"."}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(path.Join(name, "go.mod")); err == nil && name != "." {
				modules = append(modules, name)
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			all = append(all, source{path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walking the repository: %v", err)
	}
	for i := range all {
		for _, m := range modules { // the walk finds a module before those inside it
			if within(all[i].pkg, m) {
				all[i].module = m
			}
		}
	}
	return all
}

// isStandard tells a package of the standard library by its path: all others
// begin with a domain. "C" is cgo.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && imported != "C"
}

// forbidden is why a file may not import a package, or "".
func forbidden(s source, imported string) string {
	if isStandard(imported) {
		return ""
	}
	ours, isOurs := strings.CutPrefix(imported+"/", module+"/")
	if !isOurs {
		if s.module == "." {
			return "the root module uses the standard library only, in tests too"
		}
		return ""
	}
	ours = cmp.Or(strings.TrimSuffix(ours, "/"), ".")
	if within(ours, program) && !within(s.pkg, program) {
		return "nothing imports the program"
	}
	if slices.ContainsFunc(topFolders, func(top string) bool { return within(s.pkg, top) }) {
		return ""
	}
	if s.test {
		return forbiddenInTest(s, ours)
	}
	if slices.Contains(layers[s.pkg], ours) || slices.Contains(small[ours], s.pkg) {
		return ""
	}
	return fmt.Sprintf("of ours %s may import %q only", s.pkg, layers[s.pkg])
}

// forbiddenInTest lets tests look across layers, but not out of their module.
func forbiddenInTest(s source, ours string) string {
	for _, top := range append(topFolders, "throttlegrpc", "throttleenvoy", "throttleaws", "throttleotel") {
		if s.module == "." && within(ours, top) {
			return "this is another module, which the root module does not require"
		}
	}
	return ""
}

// importBreaches checks the imports of one parsed file.
func importBreaches(fset *token.FileSet, s source, f *ast.File) (found []breach) {
	_, known := layers[s.pkg]
	if !known && !slices.ContainsFunc(topFolders, func(top string) bool { return within(s.pkg, top) }) {
		found = append(found, breach{fset.Position(f.Name.Pos()), "import", s.pkg + " is not in the import table"})
	}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has complained
		}
		why := forbidden(s, imported)
		if why == "" && !s.test && isStandard(imported) && slices.Contains(pure, s.pkg) && !pureImports[imported] {
			why = "not among the packages known to be free of clocks, state and I/O"
		}
		if why != "" {
			found = append(found, breach{fset.Position(spec.Pos()), "import", imported + ": " + why})
		}
	}
	return found
}

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestLayers(t *testing.T) {
	fset := token.NewFileSet()
	all := sources(t)
	if len(all) < 20 {
		t.Fatalf("found %d Go files; is this the root of the repository?", len(all))
	}
	for _, s := range all {
		f, err := parser.ParseFile(fset, s.path, nil, parser.ImportsOnly)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, b := range importBreaches(fset, s, f) {
			t.Error(b)
		}
	}
}

// TestStoreKnowsNoImplementation: what package store does with a Store, it does
// by its methods, and never by asking which one it is.
func TestStoreKnowsNoImplementation(t *testing.T) {
	fset := token.NewFileSet()
	for _, s := range sources(t) {
		if s.pkg != "store" || s.test {
			continue
		}
		f, err := parser.ParseFile(fset, s.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range implementationBreaches(fset, f) {
			t.Error(b)
		}
	}
}

// implementationBreaches are the places where a file asks whether a value is of
// the Store of another package, or of a wrapper of its own.
func implementationBreaches(fset *token.FileSet, f *ast.File) (found []breach) {
	check := func(e ast.Expr) {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		name := ""
		switch e := e.(type) {
		case *ast.SelectorExpr:
			name = e.Sel.Name
		case *ast.Ident:
			name = e.Name
		}
		if slices.Contains([]string{"Store", "Guard", "Leases"}, name) {
			found = append(found, breach{fset.Position(e.Pos()), "store", "asks whether a value is a " + name})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			check(n.Type)
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					check(e)
				}
			}
		}
		return true
	})
	return found
}

// TestRootStandsAlone: requiring the root module downloads nothing else.
func TestRootStandsAlone(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^\s*(require|replace|tool)\b.*`).Find(mod); line != nil {
		t.Errorf("go.mod of the root has %q, want no dependency of any kind", line)
	}
	if _, err := os.Stat("go.sum"); err == nil {
		t.Error("the root has a go.sum, want none: it has no dependencies")
	}
}
