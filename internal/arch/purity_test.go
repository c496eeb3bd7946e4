package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pure are the packages that decide by values alone, with what they share: time
// and randomness are arguments. So they run in virtual time just as they run live.
var pure = append([]string{"internal/list", "pace/internal/schedule", "sim/survey", "cmd/throttle/internal/knee", "throttleenvoy/internal/assign"}, purely...)

// pureImports is what they may use of the standard library. Add to it what has
// no clock, no state of its own, no concurrency and does no I/O.
var pureImports = map[string]bool{
	"bytes": true, "cmp": true, "container/heap": true, "encoding/binary": true, "encoding/json": true,
	"errors": true, "fmt": true, "iter": true, "maps": true, "math": true, "math/big": true,
	"math/bits": true, "math/rand": true, "math/rand/v2": true, "regexp": true, "slices": true,
	"sort": true, "strconv": true, "strings": true, "time": true, "unicode": true, "unicode/utf8": true,
}

// impure are the functions and variables of those packages that they may not
// use all the same, with the rule that each breaks. Of math/rand everything
// that draws from the global source is forbidden besides.
var impure = map[string]string{
	"time.Now": "clock", "time.Since": "clock", "time.Until": "clock", "time.Sleep": "clock",
	"time.After": "clock", "time.AfterFunc": "clock", "time.Tick": "clock",
	"time.NewTimer": "clock", "time.NewTicker": "clock",
	"time.Local": "environment", "time.LoadLocation": "environment",
	"fmt.Print": "output", "fmt.Printf": "output", "fmt.Println": "output",
	"fmt.Scan": "output", "fmt.Scanf": "output", "fmt.Scanln": "output",
	"maps.All": "map order", "maps.Keys": "map order", "maps.Values": "map order",
}

// A purist checks packages by their types, so that neither a renamed import
// nor a variable, a method value or a named type hides anything.
type purist struct {
	fset     *token.FileSet
	standard types.Importer
	ours     map[string]*types.Package
	info     types.Info
	sorted   map[ast.Expr]bool // arguments of slices.Sorted and its kin
	found    []breach
}

// onePurist is shared by all tests, none of which is parallel: reading the
// standard library from its sources takes half a second, and three with the
// race detector. It needs no other command and no build cache.
var onePurist = sync.OnceValue(func() *purist {
	fset := token.NewFileSet()
	return &purist{fset: fset, standard: importer.ForCompiler(fset, "source", nil), ours: map[string]*types.Package{}}
})

// Import makes a purist a types.Importer of what pure packages may import.
func (p *purist) Import(imported string) (*types.Package, error) {
	if pkg, ok := p.ours[imported]; ok {
		return pkg, nil
	}
	if pkg := strings.TrimPrefix(imported, module+"/"); slices.Contains(pure, pkg) {
		return p.importOurs(pkg)
	}
	if !pureImports[imported] {
		return nil, errors.New("a pure package may not import it")
	}
	return p.standard.Import(imported)
}

func (p *purist) importOurs(pkg string) (*types.Package, error) {
	files, err := p.parse(pkg)
	if err != nil {
		return nil, err
	}
	inner := &purist{fset: p.fset, standard: p.standard, ours: p.ours}
	checked, err := inner.typeCheck(pkg, files)
	p.ours[module+"/"+pkg] = checked
	return checked, err
}

// parse reads the code of a package, whatever its build constraints.
func (p *purist) parse(folder string) (files []*ast.File, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(p.fset, path.Join(folder, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// typeCheck fills p.info, and p.found with what does not type-check.
func (p *purist) typeCheck(pkg string, files []*ast.File) (*types.Package, error) {
	p.info = types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	conf := types.Config{Importer: p, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) {
			p.found = append(p.found, breach{p.fset.Position(e.Pos), "types", e.Msg})
		}
	}}
	return conf.Check(module+"/"+pkg, p.fset, files, &p.info)
}

// check finds every breach of purity in a package, its imports included.
func (p *purist) check(pkg string, files []*ast.File) []breach {
	p.found, p.sorted = nil, map[ast.Expr]bool{}
	for _, f := range files {
		s := source{path: p.fset.Position(f.Package).Filename, pkg: pkg, module: "."}
		p.found = append(p.found, importBreaches(p.fset, s, f)...)
	}
	imports := p.found
	if _, err := p.typeCheck(pkg, files); err != nil && len(imports) > 0 {
		p.found = imports // what could not be imported cannot type-check
	}
	for _, f := range files {
		p.checkComments(f)
		ast.Inspect(f, func(n ast.Node) bool {
			p.node(n)
			return true
		})
	}
	return p.found
}

func (p *purist) report(at ast.Node, rule, format string, args ...any) {
	p.found = append(p.found, breach{p.fset.Position(at.Pos()), rule, fmt.Sprintf(format, args...)})
}

// checkComments finds build constraints: a decision is the same everywhere.
func (p *purist) checkComments(f *ast.File) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) || constraint.IsPlusBuild(c.Text) {
				p.report(c, "build", "a pure package has no build constraints")
			}
		}
	}
}

// node checks one node of the syntax tree.
func (p *purist) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Ident:
		p.use(n)
	case *ast.GoStmt:
		p.report(n, "go", "a pure package starts no goroutine")
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		p.report(n, "channel", "a pure package has no channels")
	case *ast.RangeStmt:
		p.ranging(n)
	case *ast.FuncDecl:
		p.function(n)
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			p.write(left)
		}
	case *ast.IncDecStmt:
		p.write(n.X)
	case *ast.UnaryExpr:
		p.unary(n)
	case *ast.CallExpr:
		p.call(n)
	case *ast.SelectorExpr:
		p.pointerMethod(n)
	}
}

// use checks what an identifier stands for.
func (p *purist) use(id *ast.Ident) {
	obj := p.info.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return
	}
	from := obj.Pkg().Path()
	rule := impure[from+"."+obj.Name()]
	_, isFunc := obj.(*types.Func)
	if isFunc && (from == "math/rand" || from == "math/rand/v2") && !strings.HasPrefix(obj.Name(), "New") {
		rule = "random"
	}
	if rule == "map order" && p.sorted[id] {
		return
	}
	if rule != "" {
		p.report(id, rule, "%s.%s in a pure package", from, obj.Name())
	}
}

func (p *purist) ranging(n *ast.RangeStmt) {
	over := p.info.TypeOf(n.X)
	if holds[*types.Map](over) {
		p.report(n, "map order", "ranges over %s; range over sorted keys", over)
	}
	if holds[*types.Chan](over) {
		p.report(n, "channel", "ranges over %s", over)
	}
	if n.Tok == token.ASSIGN {
		p.write(n.Key)
		p.write(n.Value)
	}
}

// holds tells whether T is what a type is underneath, or, for a type
// parameter, what one of the types that it admits is.
func holds[T types.Type](t types.Type) bool {
	if t == nil {
		return false
	}
	if _, ok := t.Underlying().(T); ok {
		return true
	}
	if u, ok := t.(*types.Union); ok {
		for term := range u.Terms() {
			if holds[T](term.Type()) {
				return true
			}
		}
	}
	if i, ok := t.Underlying().(*types.Interface); ok {
		for e := range i.EmbeddedTypes() {
			if holds[T](e) {
				return true
			}
		}
	}
	return false
}

func (p *purist) function(n *ast.FuncDecl) {
	if n.Body == nil {
		p.report(n, "build", "%s has no body", n.Name.Name)
	}
	if n.Name.Name == "init" && n.Recv == nil {
		p.report(n, "state", "a pure package has no init")
	}
}

func TestPurity(t *testing.T) {
	p := onePurist()
	for _, pkg := range pure {
		files, err := p.parse(pkg)
		if err != nil {
			t.Fatalf("parse(%q): %v", pkg, err)
		}
		if len(files) == 0 {
			t.Errorf("package %s has no files", pkg)
		}
		for _, b := range p.check(pkg, files) {
			t.Error(b)
		}
	}
}
