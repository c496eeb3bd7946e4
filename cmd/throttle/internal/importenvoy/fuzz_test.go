package importenvoy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
)

// FuzzTranslate: any text is refused in one line with its place, or makes rules that
// are read as they were meant.
func FuzzTranslate(f *testing.F) {
	for _, text := range []string{
		file("key: x, value: 'a*b', shadow_mode: yes, share_threshold: true, " + perHour),
		file("key: user, value: '*', " + perHour + "}\n- {key: user_id, value: 'x*', " + perHour + "}\n- {key: user_id, " + perHour),
		file("key: x, descriptors: [{key: x_y, value: 'a*', share_threshold: true}, {key: x, " + perHour + "}]"),
		file("key: x, quota_mode: true, rate_limit: {unlimited: on, name: n, replaces: [{name: m}]}, metadata: {a: 1.5}"),
		"{\"domain\": \"\\u0001\", \"descriptors\": [{\"key\": \"=\", \"rate_limit\": {\"unit\": \"week\", \"requests_per_unit\": 7}}]}",
		"domain: &a b\ndescriptors: &l\n- {key: *a, " + perHour + "}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		done, err := importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(text)}}, importenvoy.Options{})
		if flaw := (*tree.Error)(nil); err != nil && (!errors.As(err, &flaw) || flaw.Line < 1 || flaw.Column < 1 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v, want one line with a place", text, err)
		}
		if err == nil {
			reread(t, text, done)
			if done, err = importenvoy.Translate([]importenvoy.Source{{Name: "f", Data: []byte(text)}}, importenvoy.Options{Overrides: true}); err != nil {
				t.Fatalf("%q: with overrides: %v", text, err)
			}
			reread(t, text, done)
		}
	})
}
