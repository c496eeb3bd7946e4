package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	glossary = "docs/glossary.md"
	index    = "docs/README.md"
)

// complete are the packages of which every exported type is in the glossary.
var complete = []string{"throttle", "pace", "load", "limit", "fit", "signal", "store", "memory", "admit", "rules", "throttlehttp", "worker"}

// terms are words of the field, by which people search.
var terms = []string{
	"admission control", "backpressure", "bulkhead", "circuit breaker", "concurrency limit", "distributed limit",
	"fixed window", "GCRA", "jitter", "leaky bucket", "load shedding", "rate limiter", "Retry-After", "retry budget",
	"semaphore", "shaper", "sliding window", "thundering herd", "token bucket", "token prefetch", "weighted fair queueing",
}

// names are the exported names of a package: "Name" of what it declares, and true
// where that is a type; and "Type.Name" of fields and methods.
type names map[string]bool

// allNames are those of each package that others may import, by its name.
func allNames(t *testing.T) map[string]names {
	t.Helper()
	all := map[string]names{}
	for _, s := range sources(t) {
		if _, ours := layers[s.pkg]; s.test || !ours || strings.Contains(s.pkg, "internal") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), s.path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if all[f.Name.Name] == nil {
			all[f.Name.Name] = names{}
		}
		all[f.Name.Name].add(f)
	}
	return all
}

func (n names) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			n[receiver(d)+d.Name.Name] = false
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				n.addSpec(spec)
			}
		}
	}
}

func (n names) addSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			n[id.Name] = false
		}
	case *ast.TypeSpec:
		n[spec.Name.Name] = spec.Name.IsExported()
		members := new(ast.FieldList)
		switch t := spec.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		}
		for _, m := range members.List {
			for _, id := range m.Names {
				n[spec.Name.Name+"."+id.Name] = false
			}
		}
	}
}

// receiver is the type of a method and a dot, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "."
		default:
			return ""
		}
	}
}

// A mention is a name that the glossary gives as ours.
type mention struct {
	line int
	name string // as it stands there
	pkg  string // that the section is about, or ""
}

var (
	section   = regexp.MustCompile(`^###? (?:(\w+):)?`)
	codeSpan  = regexp.MustCompile("`([^`]+)`")
	identPath = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Z]\w*)*`)
)

// mentions are the names in the first column of each table, and in all columns of the
// last, which leads from the words of the field to ours.
func mentions(text string) (all []mention) {
	pkg, last := "", false
	for i, line := range strings.Split(text, "\n") {
		if m := section.FindStringSubmatch(line); m != nil {
			pkg, last = m[1], strings.HasPrefix(line, "## From ")
		}
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		if !last {
			line, _, _ = strings.Cut(line[2:], " | ")
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			if name := identPath.FindString(m[1]); name != "" {
				all = append(all, mention{i + 1, name, pkg})
			}
		}
	}
	return all
}

// of reports whether m names a type of a package: as Package.Type, or as Type in the
// section about the package.
func (m mention) of(pkg, name string) bool {
	return m.name == pkg+"."+name || m.pkg == pkg && m.name == name
}

// exists reports whether a name with a dot is Package.Name, Package.Type.Member or
// Type.Member of ours. One without may be a measure of the simulator.
func (m mention) exists(all map[string]names) bool {
	first, rest, dotted := strings.Cut(m.name, ".")
	if of, ok := all[first]; dotted && ok {
		_, ok = of[rest]
		return ok
	}
	for _, of := range all {
		if _, ok := of[m.name]; ok {
			return true
		}
	}
	return !dotted
}

// glossaryFaults are names of a glossary that are not ours, and types that it lacks.
func glossaryFaults(text string, all map[string]names) (faults []string) {
	found := mentions(text)
	for _, m := range found {
		if !m.exists(all) {
			faults = append(faults, fmt.Sprintf("line %d: no package exports %s", m.line, m.name))
		}
	}
	for _, pkg := range complete {
		for _, name := range slices.Sorted(maps.Keys(all[pkg])) {
			if all[pkg][name] && !slices.ContainsFunc(found, func(m mention) bool { return m.of(pkg, name) }) {
				faults = append(faults, fmt.Sprintf("the type %s.%s is in no first column", pkg, name))
			}
		}
	}
	return faults
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHouseGlossary: each type has a line that ties it to the word of the field, each
// word of the field a line that leads to us, and every name there is one of ours.
func TestHouseGlossary(t *testing.T) {
	text := read(t, glossary)
	for _, fault := range glossaryFaults(text, allNames(t)) {
		t.Errorf("%s: %s", glossary, fault)
	}
	_, words, _ := strings.Cut(text, "\n## From ")
	for _, term := range terms {
		if !regexp.MustCompile(`(?m)^\| ([^|]+, )?` + term + `[,;| ]`).MatchString(words) {
			t.Errorf("%s: no line of the last table is for %s", glossary, term)
		}
	}
}

// TestHouseIndex: every document is in the index, and so is every word of the field.
func TestHouseIndex(t *testing.T) {
	text := read(t, index)
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("docs/*.md: %v, %v", documents, err)
	}
	for _, d := range documents {
		if d != index && !slices.Contains(fileLinks(text), path.Base(d)) {
			t.Errorf("%s has no link to %s: add it by task, by side and by kind", index, path.Base(d))
		}
	}
	for _, term := range terms {
		if !strings.Contains(text, term) {
			t.Errorf("%s: %s does not occur, so that no search for it finds us", index, term)
		}
	}
}

func TestGlossaryBites(t *testing.T) {
	n := names{}
	f, err := parser.ParseFile(token.NewFileSet(), "x.go",
		"package pace\ntype A struct{ B int }\nfunc (a *A) C() {}\ntype d int\ntype E interface{ F() }\nconst G = 1", 0)
	if err != nil {
		t.Fatal(err)
	}
	n.add(f)
	all := map[string]names{"pace": n}
	const no = "the type pace.%s is in no first column"
	for text, want := range map[string][]string{
		"### pace: x\n| `A`, `pace.E` (`F`) | `x.Y` |":           nil,
		"### load: x\n| `A` |\n| `E.F`, `pace.E` |":              {fmt.Sprintf(no, "A")},
		"| `pace.A.B` | `pace.E` |\n| `A.C`, `pace.A`":           {fmt.Sprintf(no, "E")},
		"### pace: x\n| `A`, `E`, `A.B`, `A.D` |\n| z |":         {"line 2: no package exports A.D"},
		"### pace: x\n| `A`, `E` |\n## From a\n| b | `pace.H` |": {"line 4: no package exports pace.H"},
	} {
		if got := glossaryFaults(text, all); !slices.Equal(got, want) {
			t.Errorf("glossaryFaults(%q) = %q, want %q", text, got, want)
		}
	}
}
