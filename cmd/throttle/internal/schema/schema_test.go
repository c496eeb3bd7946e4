package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

func TestSchema(t *testing.T) {
	out, errs, code := clitest.Play(t.Context(), Run)
	var s struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || errs != "" || s.Properties["gateway"] == nil || strings.Join(s.Required, " ") != "version" {
		t.Errorf("code %d, %v, %s: required %v of %d fields", code, err, errs, s.Required, len(s.Properties))
	}
	if _, errs, code := clitest.Play(t.Context(), Run, "x"); code != 2 || errs != "throttle: schema: x is not known; write 'throttle schema' or 'throttle schema rules'\n" {
		t.Errorf("code %d, %s", code, errs)
	}
	if out, _, code := clitest.Play(t.Context(), Run, "rules"); code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, "in_flight") {
		t.Errorf("rules: code %d\n%s", code, out)
	}
	if out, _, code := clitest.Play(t.Context(), Run, "-h"); code != 0 || !strings.Contains(out, "throttle schema > throttle.schema.json") {
		t.Errorf("help: code %d\n%s", code, out)
	}
}
