package admin

import (
	"regexp"
	"slices"
	"testing"
)

// TestDocs: docs/operations.md has each endpoint of the API, and no other.
func TestDocs(t *testing.T) {
	var want, got []string
	for _, e := range new(server).endpoints() {
		want = append(want, e.pattern)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:GET|PUT|POST|DELETE) /[^`]*)` \\|").FindAllStringSubmatch(readFile(t, "../../../../docs/operations.md"), -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/operations.md has\n%q\nwant\n%q", got, want)
	}
}
