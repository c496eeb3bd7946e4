package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestBubblesOnOneProcessor: tests run their bubbles by internal/bubble, as the
// race detector dies in those of testing/synctest (the package says when). Those of
// examples/tasks are for users to copy, and have few goroutines.
func TestBubblesOnOneProcessor(t *testing.T) {
	fset := token.NewFileSet()
	for _, s := range sources(t) {
		if s.pkg == "internal/bubble" || s.pkg == "examples/tasks" {
			continue
		}
		f, err := parser.ParseFile(fset, s.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bareBubbles(fset, f) {
			t.Error(b)
		}
	}
}

// bareBubbles are the places where a file names synctest.Test.
func bareBubbles(fset *token.FileSet, f *ast.File) (found []breach) {
	ast.Inspect(f, func(n ast.Node) bool {
		e, ok := n.(*ast.SelectorExpr)
		if !ok || e.Sel.Name != "Test" {
			return true
		}
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "synctest" {
			found = append(found, breach{fset.Position(e.Pos()), "bubble", "synctest.Test: call bubble.Test of internal/bubble"})
		}
		return true
	})
	return found
}

func TestBubblesBite(t *testing.T) {
	for src, want := range map[string]int{
		"package x\nfunc f() { synctest.Test(nil, nil); synctest.Wait() }": 1,
		"package x\nvar f = synctest.Test":                                 1,
		"package x\nfunc f() { bubble.Test(nil, nil); synctest.Wait() }":   0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(bareBubbles(fset, f)); got != want {
			t.Errorf("%q: %d breaches, want %d", src, got, want)
		}
	}
}
