package arch

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	setAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	anchored  = regexp.MustCompile(`\]\(([^)\s#]*)#([^)\s]+)\)`)
)

// anchors are the anchors that a Markdown text has on GitHub.
func anchors(text string) map[string]bool {
	text = codeBlock.ReplaceAllString(text, "")
	all := map[string]bool{}
	for _, m := range setAnchor.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		slug = strings.ReplaceAll(strings.TrimSpace(slug), " ", "-")
		for n, base := 1, slug; all[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", base, n)
		}
		all[slug] = true
	}
	return all
}

// brokenAnchors are the links of a text, in a file of that name, to headings of
// ours that are not there.
func brokenAnchors(t *testing.T, name, text string) (broken []string) {
	t.Helper()
	for _, m := range anchored.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		target, to := text, name
		if m[1] != "" {
			if otherScheme.MatchString(m[1]) || !strings.HasSuffix(m[1], ".md") {
				continue
			}
			to = filepath.Join(filepath.Dir(name), m[1])
			target = guide(t, to)
		}
		if !anchors(target)[m[2]] {
			broken = append(broken, to+"#"+m[2])
		}
	}
	return broken
}

// TestHouseAnchors: every heading that a guide, README.md or a document links to
// is there.
func TestHouseAnchors(t *testing.T) {
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) < 20 {
		t.Fatalf("found %d documents, %v", len(names), err)
	}
	for _, name := range append(append(names, "README.md"), guides...) {
		for _, link := range brokenAnchors(t, name, guide(t, name)) {
			t.Errorf("%s links to %s, which has no such heading", name, link)
		}
	}
	const text = "# A `b.c`, d-e?\n## F\n## F\n[a](#a-bc-d-e) [f](#f-1) [g](#g) [h](docs/redis.md#no) [i](https://i.j/k.md#l)\n"
	if got := strings.Join(brokenAnchors(t, "README.md", text), " "); got != "README.md#g docs/redis.md#no" {
		t.Errorf("broken anchors of %q: %s", text, got)
	}
}
