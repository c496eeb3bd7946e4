package signal

import (
	"strings"
	"testing"
	"time"
)

// TestExplainSaysWhatIsIgnored: of a RateLimit field that says nothing, or not
// all of what it means to, the notes say so.
func TestExplainSaysWhatIsIgnored(t *testing.T) {
	for _, c := range []struct{ field, why string }{
		{`"x";r=-5`, "neither how many remain"},
		{`"x";t=5`, "neither how many remain"},
		{`limits=5`, "neither how many remain"},
		{`,,,`, "not a structured field"},
		{`"x";r=5;t=soon`, "not a number of seconds"},
		{`"x";r=5;t=5`, ""},
		{`limit=5, remaining=4`, ""},
	} {
		_, notes := For("").Explain(200, func(name string) string {
			if name == "RateLimit" {
				return c.field
			}
			return ""
		}, nil, time.Unix(0, 0))
		var ignored []string
		for _, n := range notes {
			if n.Ignored {
				ignored = append(ignored, n.Says)
			}
		}
		if got := strings.Join(ignored, "; "); c.why == "" && got != "" || !strings.Contains(got, c.why) {
			t.Errorf("RateLimit: %s is ignored as %q, want %q in it", c.field, got, c.why)
		}
	}
}
