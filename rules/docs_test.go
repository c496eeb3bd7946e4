package rules_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// TestDocs: the files of the documentation are good, and it names every field.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d blocks of JSON, want more", len(blocks))
	}
	for _, b := range blocks {
		if _, err := rules.Parse(b[1], "customer", "bytes"); err != nil {
			t.Errorf("Parse(%s) = %v", b[1], err)
		}
	}
	for _, v := range []any{
		rules.Set{},
		rules.Rule{},
		rules.Match{},
		rules.Override{},
		rules.Proxies{},
		rules.Entry{},
		rules.Kill{},
		rules.Shadow{},
		rules.Switch{},
		rules.Case{},
		rules.Overlay{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), `"`+name+`"`) {
				t.Errorf("docs/rules.md does not name the field %s of %T", name, v)
			}
		}
	}
	for _, limit := range []string{"10/s", "600/10m", "10/s burst 20", "5000/h fixed-window", "100000/month calendar-window Europe/Berlin", "unlimited", "0/s"} {
		if !strings.Contains(string(text), `"`+limit+`"`) {
			t.Errorf("docs/rules.md does not show the limit %q", limit)
		}
		mustParse(t, `{"rules": [{"name": "r", "limits": "`+limit+`"}]}`)
	}
}
