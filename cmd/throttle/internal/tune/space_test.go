package tune

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/sim"
)

func TestParseSpace(t *testing.T) {
	for text, want := range map[string]string{
		"adaptive(probe=5s..5m)":          "adaptive(probe=5s..5m)",
		" adaptive ( probe = 5s .. 5m ) ": "adaptive(probe=5s..5m)",
		"adaptive":                        "adaptive(probe=7.5s..8m)",
		"adaptive()":                      "adaptive(probe=7.5s..8m)",
		"fixed(burst=1..10,rate=2)":       "fixed(rate=2,burst=1..10)",
		"fixed":                           "fixed(rate=0.5..32,burst=1..8)",
		"adaptive(weight=1..2)":           "adaptive(weight=1..2)",
		"gradual":                         "gradual(min=100ms..6.4s,multiplier=1.02..2.6)",
		"fixed(burst=3)":                  "fixed(burst=3,rate=0.5..32)",
		"backoff(tries=0|3|5,cap=0s..1h,factor=2)": "backoff(factor=2,tries=0|3|5,cap=0s..1h)",
		"backoff(jitter= full | equal )":           "backoff(jitter=full|equal)",
		"backoff(base=0..5s)":                      "backoff(base=0s..5s)",
		"backoff":                                  "backoff(base=100ms..6.4s,factor=1.02..2.6,spread=0.0125..0.8)",
		"aimd(start=20)":                           "aimd(start=20,cut=0.0625..0.938,step=0.00125..0.08)",
		"autosleeper(initial=1s,max=1m,randomization=0,max-randomization=0s)": "autosleeper(initial=1s,max=1m,randomization=0,max-randomization=0s,up=1.06..5,down=0.113..0.988,threshold=1..80)",
	} {
		s, err := parseSpace(text)
		if err != nil || s.String() != want {
			t.Errorf("parseSpace(%q) = %s, %v; want %s", text, &s, err, want)
		}
	}
}

func TestParseSpaceErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `policy "" is not known`,
		"best":                        `policy "best" is not known`,
		"best(rate=1..2)":             `policy "best" is not known`,
		"fixed(rate=1..2":             "parentheses do not match",
		"fixed rate=1..2)":            `policy "fixed rate=1..2)" is not known`,
		"fixed(rate=1..2))":           "parentheses do not match",
		"fixed(speed=1..2)":           `setting "speed" is not known`,
		"fixed(rate)":                 "write name=value",
		"fixed(rate=1..2..3)":         "rate=2..3: must be a number",
		"fixed(rate=..3)":             "rate=: must be a number",
		"fixed(rate=3..)":             "rate=: must be a number",
		"fixed(rate=3..1)":            "-policy fixed: rate=3..1: the low end must be below the high end",
		"fixed(rate=3..3)":            "the low end must be below",
		"fixed(rate=0..3)":            "rate=0: must be a number from 1e-06",
		"fixed(rate=1..NaN)":          "rate=NaN: must be a number",
		"fixed(rate=1..Inf)":          "rate=Inf: must be a number",
		"fixed(rate=1|x)":             "rate=x: must be a number",
		"fixed(rate=1|2|1)":           "rate: 1 occurs twice",
		"fixed(rate=1..2,rate=3)":     "rate occurs twice",
		"fixed(rate=3, rate =3)":      "rate occurs twice",
		"fixed(rate=3,burst=2)":       "nothing to search",
		"fixed(rate=x,burst=1..2)":    "rate=x: must be a number",
		"adaptive(probe=5..9)":        "probe=5: must be a duration",
		"adaptive(probe=5m..5s)":      "probe=5m..5s: the low end must be below",
		"backoff(jitter=full..equal)": "a range is of numbers or durations; write choices as a|b",
		"backoff(jitter=full|some)":   "jitter=some: must be one of none, full",
		"none":                        "nothing to search",
	} {
		_, err := parseSpace(text)
		if !errors.As(err, new(usage.Error)) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseSpace(%q) = %v, want a usage.Error ...%s...", text, err, want)
		}
	}
}

// Every policy with settings can be searched without a word about ranges, and
// takes what lies at the ends and between them.
func TestEverySpace(t *testing.T) {
	for _, p := range sim.Policies() {
		s, err := parseSpace(p.Name)
		if len(p.Settings) == 0 || p.Name == "none" { // how many in flight is a choice that one names
			continue
		}
		if err != nil {
			t.Errorf("parseSpace(%s): %v", p.Name, err)
			continue
		}
		if _, ok := s.defaults(); !ok {
			t.Errorf("%s does not hold its defaults", &s)
		}
		for _, u := range []float64{0, 0.001, 0.37, 0.999, 1} {
			point := make([]float64, len(s.dims))
			for i := range point {
				point[i] = u
			}
			if _, err := sim.ParsePolicy(s.at(point)); err != nil {
				t.Errorf("%s at %v: %v", &s, u, err)
			}
		}
		if _, err := parseSpace(s.String()); err != nil {
			t.Errorf("%s cannot be read again: %v", &s, err)
		}
	}
}

func TestDimension(t *testing.T) {
	for _, test := range []struct {
		policy string
		u      float64
		want   string
	}{
		{"fixed(rate=1..100)", 0, "rate=1"},
		{"fixed(rate=1..100)", 0.5, "rate=10"},
		{"fixed(rate=1..100)", 0.25, "rate=3.16"},
		{"fixed(rate=1..100)", 1, "rate=100"},
		{"fixed(rate=1.2345..9.8765)", 0, "rate=1.2345"},
		{"fixed(rate=1.2345..9.8765)", 1, "rate=9.8765"},
		{"fixed(burst=1..8)", 0.4, "burst=2"},
		{"adaptive(probe=5s..5m)", 0.5, "probe=38.7s"},
		{"adaptive(probe=1s..100m)", 1, "probe=1h40m"},
		{"adaptive(probe=0s..100s)", 0.25, "probe=25s"},
		{"backoff(jitter=none|full|equal)", 0, "jitter=none"},
		{"backoff(jitter=none|full|equal)", 0.5, "jitter=full"},
		{"backoff(jitter=none|full|equal)", 1, "jitter=equal"},
	} {
		s, err := parseSpace(test.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.at([]float64{test.u}); got != s.name+"("+test.want+")" {
			t.Errorf("%s at %v = %s, want %s", test.policy, test.u, got, test.want)
		}
		_, value, _ := strings.Cut(test.want, "=")
		u, ok := s.dims[0].place(value)
		if got := s.dims[0].value(u); !ok || got != value {
			t.Errorf("%s: place(%s) = %v, %t, and value(%v) = %s", test.policy, value, u, ok, u, got)
		}
	}
}

func TestOutsideOfTheRange(t *testing.T) {
	for policy, want := range map[string]bool{
		"fixed(rate=1..100)": true, "fixed(rate=4..5)": true, "fixed(rate=5..100)": false, "fixed(rate=1..3.9)": false,
		"backoff(jitter=full|upward)": true, "backoff(jitter=full|none)": false, "backoff(step=1s..2s)": false,
		"fixed(rate=1..100,burst=2..3)": false, "fixed(rate=1..100,burst=2)": true,
	} {
		s, err := parseSpace(policy)
		if _, got := s.defaults(); err != nil || got != want {
			t.Errorf("%s holds the defaults: %s, %v; want %t", policy, strconv.FormatBool(got), err, want)
		}
	}
}
