package admin

import (
	"strings"
	"testing"
)

// TestPageFormFails: a form that fails keeps what was typed, and no other form takes it
// over, nor does one take what stands in a link.
func TestPageFormFails(t *testing.T) {
	v := instances(t, 1)[0].visit(writeSecret)
	form := func(page answer, name string) string {
		t.Helper()
		_, rest, found := strings.Cut(page.body, `action="/do/`+name+`"`)
		if !found {
			t.Fatalf("the page has no form %s: %s", name, page.body)
		}
		text, _, _ := strings.Cut(rest, "</form>")
		return text
	}
	for _, failed := range []string{"raise", "block", "exempt"} {
		page := v.submit("/do/"+failed+"?why=linked", "rule", "per-client", "key", "acme", "entry", "client=acme",
			"times", "3", "for", "4h", "other", "400d", "why", "a launch", "back", "/who")
		if page.status != 400 {
			t.Fatalf("%s for 400d: %d %s", failed, page.status, page.body)
		}
		for _, name := range []string{"raise", "forgive", "block", "exempt"} {
			text, want := form(page, name), name == failed
			if got := strings.Contains(text, `value="a launch"`); got != want {
				t.Errorf("%s failed: the form %s has its reason: %t", failed, name, got)
			}
			if name == "forgive" {
				continue
			}
			for _, mark := range []string{`value="400d"`, `value="4h" selected`, "aria-invalid"} {
				if got := strings.Contains(text, mark); got != want {
					t.Errorf("%s failed: the form %s has %s: %t", failed, name, mark, got)
				}
			}
			if strings.Contains(text, "linked") {
				t.Errorf("the form %s has the reason of a link", name)
			}
		}
	}
	linked := v.open("/?other=366d&for=7d&why=linked")
	for _, mark := range []string{"366d", `value="7d" selected`, `value="linked"`} {
		if strings.Contains(form(linked, "kill"), mark) {
			t.Errorf("a link puts %s into the kill switch", mark)
		}
	}
}
