package browsertest

import (
	"os"
	"path/filepath"
	"runtime"
)

// Axe is the script of axe-core, which scripts/need.sh installs in .bin; "" if it is
// not there and not required.
func (b *Browser) Axe() string {
	b.Helper()
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../../../.bin/axe/node_modules/axe-core/axe.min.js"))
	if err != nil {
		if os.Getenv("THROTTLE_REQUIRE") == "1" {
			b.Fatalf("NO AXE: scripts/need.sh installs it: %v", err)
		}
		b.Log("NO AXE: accessibility is NOT checked; scripts/need.sh installs it")
		return ""
	}
	return string(text)
}

// Violation is a rule of axe-core that the page breaks.
type Violation struct {
	Rule  string // as "label"
	Where string // the rule in words, and up to three places
}

// Violations are those of WCAG 2.2, levels A and AA, that axe finds in the page.
func (b *Browser) Violations(axe string) []Violation {
	b.Helper()
	Ask[any](b, axe+";0")
	return Ask[[]Violation](b, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r =>
		r.violations.map(v => ({Rule: v.id, Where: v.help + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join("; ")})))`)
}

// Accessible fails the test for each violation in the page.
func (b *Browser) Accessible(axe, when string) {
	b.Helper()
	for _, v := range b.Violations(axe) {
		b.Errorf("%s: %s: %s", when, v.Rule, v.Where)
	}
}
