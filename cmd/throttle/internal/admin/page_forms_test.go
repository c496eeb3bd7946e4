package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
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

// TestPageRaiseTimes: a factor that is no number is refused, not read as far as it is one.
func TestPageRaiseTimes(t *testing.T) {
	v := instances(t, 1)[0].visit(writeSecret)
	for times, want := range map[string]string{
		" 2.5 ": "", "2,5": "must be a number", "1 000": "must be a number", "2x": "must be a number", "inf": "must be a number", "nan": "must be a number", "": "limits: are missing",
	} {
		page := v.submit("/do/raise", "rule", "per-client", "key", "acme", "times", times, "for", "1h", "why", "a launch")
		status := 303
		if want != "" {
			status = 400
		}
		if page.status != status || !strings.Contains(page.body, want) {
			t.Errorf("times %q: %d, want %d with %q in\n%s", times, page.status, status, want, page.body)
		}
	}
}

// TestPageByHand: the overview shows each switch that was set by hand, and a version that
// was brought back, with a form that ends it, in all instances.
func TestPageByHand(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	v := a.visit(writeSecret)
	a.must("PUT", "/api/v1/switches/cheap", because("key", "acme*", "value", true, "for", "1h"))
	a.must("PUT", "/api/v1/switches/new", because("key", "*", "value", "blue"))
	a.must("PUT", "/api/v1/rollback", because("version", "v1"))
	shown := v.open("/").body
	for _, want := range []string{"cheap · acme*", "new · *", "blue", `action="/do/end-switch"`, `action="/do/end-rollback"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("what was changed by hand has no %s", want)
		}
	}
	for _, end := range [][]string{{"end-switch", "switch", "cheap", "key", "acme*"}, {"end-switch", "switch", "new", "key", "*"}, {"end-rollback"}} {
		if got := v.submit("/do/"+end[0], append(end[1:], "why", "over")...); got.status != 303 {
			t.Errorf("%q: %d %s", end, got.status, got.body)
		}
	}
	const nothing = "Nothing: the rules hold as they are written."
	if strings.Contains(shown, nothing) || !strings.Contains(v.open("/").body, nothing) {
		t.Errorf("the page must say %q when all has ended, and not before", nothing)
	}
	b.look()
	if is := b.stack.Live.Load().Switch("cheap", "acme-1", time.Now()); is != "false" {
		t.Errorf("the switch is %q in the other instance", is)
	}
}

// TestEndedSwitches: the end of a case of a switch is one that open pages are told of.
func TestEndedSwitches(t *testing.T) {
	now := time.Unix(1e9, 0)
	o := rules.Overlay{Switches: map[string][]rules.Case{"cheap": {{Key: "a", Note: rules.Note{Until: now}}, {Key: "b"}}}}
	if before, at := ended(o, now.Add(-1)), ended(o, now); before != 0 || at != 1 {
		t.Errorf("%d have ended before, and %d at the end; want none and 1", before, at)
	}
}
