package rules

import "testing"

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
