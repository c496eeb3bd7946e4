package tune

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// trialAt is a trial of two measures; below zero one is absent.
func trialAt(name string, sleep, utilisation, score float64) *trial {
	t := &trial{policy: sim.Policy{Name: name}, median: make(readings, len(sim.Measures)), score: score}
	for measure, v := range map[string]float64{"max_sleep_s": sleep, "utilisation": utilisation} {
		if v >= 0 {
			t.median[measures.At(measure)] = pace.Some(v)
		}
	}
	return t
}

func names(trials []*trial) (names string) {
	for _, t := range trials {
		names += t.policy.Name
	}
	return names
}

// company is trials of which bgae are the front: c equals b, d and f are worse
// than g, and h has no utilisation.
func company() []*trial {
	return []*trial{
		trialAt("a", 3, 0.7, 9), trialAt("b", 1, 0.5, 3), trialAt("c", 1, 0.5, 8), trialAt("d", 2, 0.5, 1),
		trialAt("e", 4, 0.9, 7), trialAt("f", 3, 0.5, 2), trialAt("g", 2, 0.6, 4), trialAt("h", 0, -1, 5),
	}
}

func TestFront(t *testing.T) {
	axes := [2]int{measures.At("max_sleep_s"), measures.At("utilisation")}
	if got, want := names(front(company(), axes)), "bgae"; got != want {
		t.Errorf("front = %s, want %s", got, want)
	}
	if got, want := names(front(company(), [2]int{axes[1], axes[0]})), "eagb"; got != want {
		t.Errorf("front, the axes exchanged = %s, want %s", got, want)
	}
	if got := front(nil, axes); len(got) != 0 {
		t.Errorf("front of nothing = %s", names(got))
	}
}

func TestSpread(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "a", 2: "ah", 3: "adh", 5: "abdfh", 8: "abcdefgh", 20: "abcdefgh"} {
		if got := names(spread(company(), n)); got != want {
			t.Errorf("spread over %d = %s, want %s", n, got, want)
		}
	}
}

// Half of what goes on has the best scores, half is spread over the front.
func TestPromising(t *testing.T) {
	s := search{axes: [2]int{measures.At("max_sleep_s"), measures.At("utilisation")}}
	for n, want := range map[int]string{0: "", 1: "d", 2: "db", 4: "dfbe", 6: "dfbgeh", 100: "dfbgheca"} {
		if got := names(s.promising(company(), n)); got != want {
			t.Errorf("promising %d = %s, want %s", n, got, want)
		}
	}
}

// JSON has no infinity: what has no score has null.
func TestTrialWithoutScore(t *testing.T) {
	tried := trialAt("a", 3, -1, math.Inf(1))
	text, err := json.Marshal(jsonTrial{tried, tried})
	if want := `{"policy":"a","score":null,"fresh_score":null,"retry_rate":null,`; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("JSON of a trial without score = %s, %v; want %s...", text, err, want)
	}
}

func TestNear(t *testing.T) {
	dims := []dimension{{}, {}, {words: []string{"a", "b"}}, {words: []string{"a", "b"}}}
	for _, test := range []struct {
		centre  centre
		u, want []float64
	}{
		{centre{}, []float64{0.1, 0.2, 0.3, 0.4}, []float64{0.1, 0.2, 0.3, 0.4}},
		{centre{[]float64{0.5, 0.5, 0.75, 0.75}, 0.5}, []float64{0, 1, 0.25, 0.5}, []float64{0.25, 0.75, 0.5, 0.75}},
		{centre{[]float64{0.125, 1, 0.75, 0.75}, 0.5}, []float64{0, 0.75, 0.5, 0}, []float64{0, 1, 0.75, 0}},
	} {
		if got := test.centre.near(test.u, dims); !slices.Equal(got, test.want) {
			t.Errorf("%+v.near(%v) = %v, want %v", test.centre, test.u, got, test.want)
		}
	}
}

// However many points are drawn, each half, third or fifth of a setting has
// its part of them.
func TestHaltonIsEven(t *testing.T) {
	s := search{first: 7, space: space{dims: make([]dimension, 7)}}
	const n, parts = 210, 10
	counts := make([][parts]int, len(s.space.dims))
	for i := range n {
		for d, u := range s.halton(i) {
			if !(u >= 0 && u < 1) {
				t.Fatalf("halton(%d)[%d] = %v, want it from 0 to 1", i, d, u)
			}
			counts[d][int(u*parts)]++
		}
	}
	for d, count := range counts {
		for part, got := range count {
			if got < n/parts/2 || got > n/parts*3/2 {
				t.Errorf("setting %d has %d of %d points in tenth %d, want about %d", d, got, n, part, n/parts)
			}
		}
	}
}
