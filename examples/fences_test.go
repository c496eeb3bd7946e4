package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// elsewhere are the documents whose blocks have names, and compile in another
// module, as they import the libraries that they are about.
var elsewhere = []string{"migrating.md"}

var namedGo = regexp.MustCompile("(?m)^```go[^\n]+$")

// TestDocumentsFences: no Go block of a document escapes TestDocumentsCompile by
// what stands behind its fence.
func TestDocumentsFences(t *testing.T) {
	names, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := namedGo.Find(text); (found != nil) != slices.Contains(elsewhere, filepath.Base(name)) {
			t.Errorf("%s has the fence %q; named blocks compile in %q only", name, found, elsewhere)
		}
	}
}
