package load_test

import (
	"encoding/json"
	"testing"

	"github.com/throttle-go/throttle/load"
)

func TestPriority(t *testing.T) {
	for i, p := range [load.Priorities]load.Priority{load.Low, load.Normal, load.High, load.Critical} {
		word := [...]string{"low", "normal", "high", "critical"}[i]
		text, err := json.Marshal(p)
		if p.Index() != i || p.String() != word || err != nil || string(text) != `"`+word+`"` {
			t.Errorf("%d: Index %d, String %q, JSON %s, %v; want %d, %s", p, p.Index(), p, text, err, i, word)
		}
		var back load.Priority
		if err := json.Unmarshal(text, &back); err != nil || back != p {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", text, back, err, p)
		}
	}
	for p, index := range map[load.Priority]int{0: 1, 5: 3, 255: 3} {
		if _, err := p.MarshalText(); p.Index() != index || p.String() != "unknown" || err == nil {
			t.Errorf("%d: Index %d, String %q, error %v; want %d, unknown, and an error", p, p.Index(), p, err, index)
		}
	}
	for _, text := range []string{"", "Low", "unknown", "3", "urgent"} {
		p := load.High
		want := `unknown priority "` + text + `"; write low, normal, high or critical`
		if err := p.UnmarshalText([]byte(text)); err == nil || err.Error() != want || p != load.High {
			t.Errorf("UnmarshalText(%q) = %v, and makes it %v; want %s, and no change", text, err, p, want)
		}
	}
}
