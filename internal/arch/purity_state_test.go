package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// This file finds package variables that change: state that no caller passed
// in, so that a decision would depend on what ran before it.

// global is the package variable that an expression is, or is a part of: v,
// v.f, v[i], *v, v[i:j]. It is nil where there is none.
func (p *purist) global(e ast.Expr) *types.Var {
	switch e := e.(type) {
	case *ast.Ident:
		v, ok := p.info.Uses[e].(*types.Var)
		if ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			return v
		}
	case *ast.SelectorExpr:
		if p.info.Selections[e] == nil {
			return p.global(e.Sel) // pkg.Name
		}
		return p.global(e.X)
	case *ast.IndexExpr:
		return p.global(e.X)
	case *ast.SliceExpr:
		return p.global(e.X)
	case *ast.StarExpr:
		return p.global(e.X)
	case *ast.ParenExpr:
		return p.global(e.X)
	}
	return nil
}

// write checks an expression that is assigned to. It may be nil.
func (p *purist) write(left ast.Expr) {
	if v := p.global(left); v != nil {
		p.report(left, "state", "changes the package variable %s", v.Name())
	}
}

// unary checks receiving, and taking an address: who has it can write there.
func (p *purist) unary(n *ast.UnaryExpr) {
	switch n.Op {
	case token.ARROW:
		p.report(n, "channel", "a pure package has no channels")
	case token.AND:
		if v := p.global(n.X); v != nil {
			p.report(n, "state", "takes the address of the package variable %s", v.Name())
		}
	}
}

// call checks the builtins that write to an argument, and notes what is sorted
// at once: slices.Sorted(maps.Keys(m)) is the way to go through a map.
func (p *purist) call(n *ast.CallExpr) {
	switch fun := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		_, builtin := p.info.Uses[fun].(*types.Builtin)
		if builtin && slices.Contains([]string{"clear", "copy", "delete"}, fun.Name) {
			p.write(n.Args[0])
		}
	case *ast.SelectorExpr:
		f, ok := p.info.Uses[fun.Sel].(*types.Func)
		if !ok || f.Pkg() == nil || f.Pkg().Path() != "slices" || len(n.Args) == 0 {
			return
		}
		if f.Name() != "Sorted" && f.Name() != "SortedFunc" {
			return
		}
		if arg, ok := n.Args[0].(*ast.CallExpr); ok {
			if from, ok := arg.Fun.(*ast.SelectorExpr); ok {
				p.sorted[from.Sel] = true
			}
		}
	}
}

// readers are types whose methods only read, though they have a pointer or an
// interface before them.
var readers = []string{"*regexp.Regexp", "*strings.Replacer", "error"}

// mayWrite tells whether a method with that receiver can change what it is
// called on. Of an interface nobody knows.
func mayWrite(recv types.Type) bool {
	if slices.Contains(readers, recv.String()) {
		return false
	}
	_, pointer := recv.(*types.Pointer)
	return pointer || types.IsInterface(recv)
}

// pointerMethod checks calls, and values, of methods that may write to their
// receiver. Where the variable is not a pointer they take its address unseen.
func (p *purist) pointerMethod(n *ast.SelectorExpr) {
	s := p.info.Selections[n]
	if s == nil || s.Kind() != types.MethodVal {
		return
	}
	v := p.global(n.X)
	recv := s.Obj().(*types.Func).Signature().Recv()
	if v == nil || recv == nil {
		return
	}
	if mayWrite(recv.Type()) {
		p.report(n, "state", "%s of the package variable %s may change it", n.Sel.Name, v.Name())
	}
}
