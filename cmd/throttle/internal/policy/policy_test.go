package policy

import (
	"slices"
	"testing"
)

func TestSplitPolicies(t *testing.T) {
	for text, want := range map[string][]string{
		"a":                  {"a"},
		"a,b":                {"a", "b"},
		"a(x=1,y=2),b":       {"a(x=1,y=2)", "b"},
		"a(x=1,y=2),b(z=3),": {"a(x=1,y=2)", "b(z=3)", ""},
		"a),b":               {"a)", "b"},
	} {
		if got := Split(text); !slices.Equal(got, want) {
			t.Errorf("Split(%q) = %q, want %q", text, got, want)
		}
	}
}
