package rules

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestGlob(t *testing.T) {
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
		if got := globOf(x.pattern).match(x.text); got != x.want {
			t.Errorf("globOf(%q).match(%q) = %t, want %t", x.pattern, x.text, got, x.want)
		}
	}
}

// TestGlobWork: the pattern that makes backtracking matchers stand still.
func TestGlobWork(t *testing.T) {
	g, text := globOf(strings.Repeat("a*", 120)+"b"), strings.Repeat("a", 1<<20)
	began := time.Now()
	if g.match(text) {
		t.Error("matched, want no match")
	}
	if took := time.Since(began); took > 5*time.Second { // it takes a millisecond
		t.Errorf("matching took %v", took)
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b*", "axbx")
	f.Add("*.example.org", "a.example.org")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		pattern, text = strings.ToValidUTF8(pattern, "?"), strings.ToValidUTF8(text, "?")
		pieces := strings.Split(pattern, "*")
		for i := range pieces {
			pieces[i] = regexp.QuoteMeta(pieces[i])
		}
		want := regexp.MustCompile(`(?s)^` + strings.Join(pieces, ".*") + `$`).MatchString(text)
		if got := globOf(pattern).match(text); got != want {
			t.Errorf("globOf(%q).match(%q) = %t, want %t", pattern, text, got, want)
		}
	})
}

func TestParts(t *testing.T) {
	for in, want := range map[string]string{
		"": "/", "/": "/", "/a": "/a", "/a/": "/a/", "//a": "/a", "/a//b/": "/a/b/", "/a/../b": "/b", "/..": "/", "/../": "/", "a/b": "/a/b", "/a/./": "/a/", "/a/..": "/",
	} {
		if got := pathOf(in); got != want {
			t.Errorf("pathOf(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"": "", "A.org": "a.org", "a.org.:80": "a.org", "a.org:80": "a.org", "[::1]:80": "[::1]", "[::1]": "[::1]", ":80": "",
	} {
		if got := hostOf(in); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", in, got, want)
		}
	}
	for n, want := range []string{"", "a", "b", "", ""} {
		if got := segment("/a/b/", n); n > 0 && got != want {
			t.Errorf("segment(%q, %d) = %q, want %q", "/a/b/", n, got, want)
		}
	}
}
