package admin

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var tag = regexp.MustCompile(`<[^>]*>`)

// TestPageHostileNames: names that clients choose are written out where they are shown:
// no elements, no marks that turn the text beside them, no more than can be read.
func TestPageHostileNames(t *testing.T) {
	one := instances(t, 1)[0]
	v := one.visit(writeSecret)
	for _, key := range []string{"a\u202egro.elpmaxe", "acme\u200b", "<img src=x onerror=alert(1)>", "a\nb", "a\x00b", "\u2067acme\u2069"} {
		for _, do := range [][]string{{"/do/raise", "rule", "per-client", "key", key, "times", "3"}, {"/do/block", "entry", "client=" + key}, {"/do/exempt", "entry", "client=" + key}} {
			if a := v.submit(do[0], append(do[1:], "for", "1h", "why", "x")...); a.status != 303 {
				t.Errorf("%s of %q: %d", do[0], key, a.status)
			}
		}
		for _, path := range append(pages, "/who?"+url.Values{"rule": {"per-client"}, "key": {key}}.Encode()) {
			a := v.open(path)
			if text := tag.ReplaceAllString(a.body, ""); a.status != 200 || strings.ContainsAny(text, "\u202e\u200b\u2067\u2069\x00") || strings.Contains(a.body, "<img") {
				t.Errorf("GET %s with the key %q: %d, and it is not written out", path, key, a.status)
			}
		}
		if a := v.open("/"); !strings.Contains(a.body, "client=") {
			t.Fatal("the overview does not show what is blocked")
		}
	}
}

// TestPageHostileLengths: what is too long is refused in one short line, as the fault
// of its sender, and nothing is changed.
func TestPageHostileLengths(t *testing.T) {
	one := instances(t, 1)[0]
	v := one.visit(writeSecret)
	long := strings.Repeat("k", 10_000)
	for _, c := range [][]string{
		{"/do/raise", "rule", "per-client", "key", long, "times", "3", "why", "x", "for", "1h"},
		{"/do/raise", "rule", "per-client", "key", "acme", "limits", long, "why", "x", "for", "1h"},
		{"/do/raise", "rule", long, "key", "acme", "times", "3", "why", "x", "for", "1h"},
		{"/do/block", "entry", "client=" + long, "why", "x", "for", "1h"},
		{"/do/block", "entry", "client=acme", "why", long, "for", "1h"},
		{"/do/block", "entry", "client=acme", "why", "x", "for", long},
		{"/do/block", "entry", "client=acme", "why", "x\u202ey", "for", "1h"},
		{"/do/block", "entry", "client=acme", "why", "x\u2028y", "for", "1h"},
		{"/do/rollback", "version", long, "why", "x"},
	} {
		a := v.submit(c[0], c[1:]...)
		_, alert, _ := strings.Cut(a.body, `id="alert">`)
		alert, _, found := strings.Cut(alert, "</p>")
		if a.status < 400 || a.status >= 500 || !found || len(alert) > 400 {
			t.Errorf("%s %.20q: %d, and says in %d bytes %.200q", c[0], c[1:], a.status, len(alert), alert)
		}
	}
	if o, _ := one.stack.Overlay(); len(o.Overrides)+len(o.Deny) > 0 {
		t.Errorf("it changed %v", o)
	}
}
