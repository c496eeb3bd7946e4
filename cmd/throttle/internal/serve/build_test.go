//go:build unix

package serve

import (
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/rules"
)

// A switch has its value in the version of the rules that decides about a request,
// which another has perhaps replaced meanwhile.
func TestSwitchOfVersion(t *testing.T) {
	f, err := config.Parse([]config.Named{{Name: "f.yaml", Data: []byte(strings.ReplaceAll(files, "TO", "http://192.0.2.1"))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := routes(f)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[rules.Value]bool{"true": true, "false": false} {
		c, err := rules.Compile(rules.Set{Switches: []rules.Switch{{Name: "lean", Value: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := all[1].Degrade(c); got != want {
			t.Errorf("lean is %s: degraded %v", value, got)
		}
	}
	if all[0].Degrade != nil || all[1].Degrade(nil) {
		t.Error("degraded without a switch, or without rules")
	}
}
