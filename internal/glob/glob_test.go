package glob

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, x := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"a*", "a", true},
		{"*a", "ba", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "abbc", true},
		{"a*b*c", "acb", false},
		{"*ab*ab*", "xabyab", true},
		{"*ab*ab*", "xabyb", false},
		{"a**b", "ab", true},
		{"?", "a", false},
		{"[a]", "a", false},
		{`\*`, `\x`, true},
	} {
		if got := Of(x.pattern).Match(x.text); got != x.want {
			t.Errorf("Of(%q).Match(%q) = %t, want %t", x.pattern, x.text, got, x.want)
		}
	}
}

// TestWork: the pattern that makes backtracking matchers stand still.
func TestWork(t *testing.T) {
	g, text := Of(strings.Repeat("a*", 120)+"b"), strings.Repeat("a", 1<<20)
	began := time.Now()
	if g.Match(text) {
		t.Error("matched, want no match")
	}
	if took := time.Since(began); took > 5*time.Second { // it takes a millisecond
		t.Errorf("matching took %v", took)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b*", "axbx")
	f.Add("*.example.org", "a.example.org")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		pattern, text = strings.ToValidUTF8(pattern, "?"), strings.ToValidUTF8(text, "?")
		pieces := strings.Split(pattern, "*")
		for i := range pieces {
			pieces[i] = regexp.QuoteMeta(pieces[i])
		}
		want := regexp.MustCompile(`(?s)^` + strings.Join(pieces, ".*") + `$`).MatchString(text)
		if got := Of(pattern).Match(text); got != want {
			t.Errorf("Of(%q).Match(%q) = %t, want %t", pattern, text, got, want)
		}
	})
}
