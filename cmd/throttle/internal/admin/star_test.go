package admin

import (
	"strings"
	"testing"
)

// TestStar: a '*' is any text, so it needs to be meant: a client may call itself so.
// The page offers no change that would be one of others.
func TestStar(t *testing.T) {
	one := instances(t, 1)[0]
	for path, fields := range map[string][]any{
		"block":  {"entry", "client=*", "for", "1h"},
		"exempt": {"entry", "client=a*", "for", "1h"},
		"raise":  {"rule", "per-client", "key", []string{"*"}, "limits", []string{"9/h"}, "for", "1h"},
	} {
		if a := one.write("PUT", "/api/v1/"+path, because(fields...)); a.status != 400 || !strings.Contains(a.body, "any text") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		one.must("PUT", "/api/v1/"+path, because(append(fields, "pattern", true)...))
		one.must("DELETE", "/api/v1/"+path, because(fields[:len(fields)-2]...))
	}
	v := one.visit(writeSecret)
	for key, want := range map[string]bool{"acme": true, "*": false, "a%2Ab": false} {
		page := v.open("/who?rule=per-client&key=" + key)
		for _, form := range []string{"raise", "block"} {
			if has := strings.Contains(page.body, `action="/do/`+form+`"`); has != want {
				t.Errorf("the page of the key %s has a form to %s it: %t", key, form, has)
			}
		}
		if says := strings.Contains(page.body, "stands for any text"); says == want || !strings.Contains(page.body, `action="/do/forgive"`) {
			t.Errorf("the page of the key %s says that it is a pattern: %t", key, says)
		}
	}
	if a := v.submit("/do/block", "entry", "client=*", "for", "1h", "why", "x"); a.status != 400 || !strings.Contains(a.body, "any text") {
		t.Errorf("the form that blocks: %d", a.status)
	}
}
