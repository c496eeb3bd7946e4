package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guides are what people read before they change something.
var guides = []string{"ARCHITECTURE.md", "CONTRIBUTING.md"}

var (
	// named is a function beside the file that declares it.
	named = regexp.MustCompile("`([A-Za-z_.]+)` in\\s\\[[^\\]]+\\]\\(([^)]+\\.go)\\)")
	// pathLike is a file or a folder between backquotes.
	pathLike = regexp.MustCompile("`((?:[a-z0-9_.]*[a-z0-9_]/)+[a-z0-9_.]*|[a-z_]+\\.(?:go|md|sql|lua))`")
	layerRow = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| (?:callers|owners|both) \\| .* \\| ([^|]*)\\|$")
)

func guide(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declares reports whether a file declares a function, or Type.Method.
func declares(file, name string) (bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			full = fmt.Sprint(of) + "." + full
		}
		if full == name {
			return true, nil
		}
	}
	return false, nil
}

// TestHouseGuideWalks: each function stands in the file that a guide names beside
// it. TestHouseLinks holds that the file is there.
func TestHouseGuideWalks(t *testing.T) {
	steps := 0
	for _, name := range guides {
		for _, m := range named.FindAllStringSubmatch(guide(t, name), -1) {
			steps++
			if ok, err := declares(m[2], m[1]); err != nil || !ok {
				t.Errorf("%s says that %s is in %s: %t, %v", name, m[1], m[2], ok, err)
			}
		}
	}
	if steps < 30 {
		t.Errorf("found %d functions with their files, want 30 and more", steps)
	}
	if ok, err := declares("pace/gate.go", "Gate.Nothing"); ok || err != nil {
		t.Errorf("declares of what is not there: %t, %v", ok, err)
	}
}

// TestHouseGuidePaths: the files and folders that a guide names are there.
func TestHouseGuidePaths(t *testing.T) {
	for _, name := range guides {
		for _, m := range pathLike.FindAllStringSubmatch(guide(t, name), -1) {
			if found, err := filepath.Glob(m[1]); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there (%v)", name, m[1], err)
			}
		}
	}
}

// TestHouseGuideLayers: the table of ARCHITECTURE.md is the import table.
func TestHouseGuideLayers(t *testing.T) {
	told := map[string][]string{}
	for _, row := range layerRow.FindAllStringSubmatch(guide(t, "ARCHITECTURE.md"), -1) {
		told[folderOf(row[1])] = importsOf(row[2])
	}
	for folder, imports := range layers {
		if strings.Contains(folder, "internal/") {
			continue
		}
		want := slices.Compact(slices.Sorted(slices.Values(imports)))
		got, ok := told[folder]
		if !ok || !slices.Equal(got, want) {
			t.Errorf("ARCHITECTURE.md has package %s: %t, which may import %q; by layers it is %q", folder, ok, got, want)
		}
	}
	if len(told) > len(layers) {
		t.Errorf("ARCHITECTURE.md has %d packages, layers %d", len(told), len(layers))
	}
}

func folderOf(name string) string {
	if name == "throttle" {
		return "."
	}
	return name
}

// importsOf are the folders of a cell, sorted.
func importsOf(cell string) (all []string) {
	for _, name := range strings.Fields(strings.ReplaceAll(cell, "`", "")) {
		if name == "pure" {
			all = append(all, purely...)
			continue
		}
		all = append(all, folderOf(name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestHouseGuideFigures: CONTRIBUTING.md states the bounds and the targets of make
// as they are.
func TestHouseGuideFigures(t *testing.T) {
	text := guide(t, "CONTRIBUTING.md")
	for what, n := range map[string]int{
		"lines of a file":                mostFileLines,
		"lines of a function":            mostFunctionLines,
		"lines of a function of a test":  mostTestLines,
		"lines of nine in ten functions": ninetieth,
		"code files in a folder":         mostFolderFiles,
		"code files in the root":         mostRootFiles,
		"exported types in the root":     mostRootTypes,
		"lines of `go doc -short`":       mostDocLines,
		"lines of README.md, fewer than": mostReadmeLines,
	} {
		if row := fmt.Sprintf("| %s | %d |\n", what, n); !strings.Contains(text, row) {
			t.Errorf("CONTRIBUTING.md has not the row %s", row)
		}
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY: help (.*)$`).FindStringSubmatch(guide(t, "Makefile"))
	if phony == nil {
		t.Fatal("the Makefile has no .PHONY that begins with help")
	}
	for _, target := range strings.Fields(phony[1]) {
		if !strings.Contains(text, "\n| `make "+target+"` |") {
			t.Errorf("CONTRIBUTING.md has no row for make %s", target)
		}
	}
}
