package ticks

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
)

func TestNext(t *testing.T) {
	at := time.Unix(1e9, 0)
	before := Totals{Counts: map[admit.Counted]int64{{Rule: "a", Reason: "within"}: 5, {Rule: "a", Reason: "over"}: 2}}
	now := Totals{Counts: map[admit.Counted]int64{
		{Rule: "a", Reason: "within"}: 9, {Rule: "a", Reason: "over"}: 2, {Rule: "b", Reason: "over", Degraded: true}: 1, {Rule: "b", Reason: "over"}: 1,
		{Rule: "b", Reason: "shadow"}: 3, {Reason: "unlimited"}: 7, {Reason: "denied"}: 1, {Reason: "refund-error"}: 1,
	}}
	got := Next(before, now, at, at.Add(2*time.Second))
	if got.Seconds != 2 || got.Count != (Count{11, 3, 3}) {
		t.Errorf("%v s: %+v", got.Seconds, got.Count)
	}
	if want := map[string]int64{"within": 4, "over": 2, "shadow": 3, "unlimited": 7, "denied": 1, "refund-error": 1}; !maps.Equal(got.Reasons, want) {
		t.Errorf("reasons %v, want %v", got.Reasons, want)
	}
	if want := map[string]Count{"a": {Passed: 4}, "b": {Refused: 2, Shadow: 3}}; !maps.Equal(got.Rules, want) {
		t.Errorf("rules %v, want %v", got.Rules, want)
	}
	if got.P50 != nil {
		t.Errorf("a latency of %v from nothing", *got.P50)
	}
}

func TestNextIsBounded(t *testing.T) {
	now := Totals{Counts: map[admit.Counted]int64{}}
	for i := range 3 * MostRules {
		now.Counts[admit.Counted{Rule: fmt.Sprint(i), Reason: "within"}] = int64(i + 1)
	}
	got := Next(Totals{}, now, time.Unix(0, 0), time.Unix(1, 0))
	if _, quiet := got.Rules["0"]; len(got.Rules) != MostRules || quiet || got.Rules["299"].Passed != 300 || got.Passed != 300*301/2 {
		t.Errorf("%d rules, %d passed", len(got.Rules), got.Passed)
	}
}

func TestQuantile(t *testing.T) {
	bounds := []float64{1, 2, 4}
	for _, c := range []struct {
		counts []uint64
		p      float64
		want   float64 // NaN: none
	}{
		{nil, 0.5, math.NaN()},
		{[]uint64{0, 0, 0, 0}, 0.5, math.NaN()},
		{[]uint64{10, 0, 0, 0}, 0.5, 0.5},
		{[]uint64{0, 10, 0, 0}, 0.5, 1.5},
		{[]uint64{5, 5, 0, 0}, 0.5, 1},
		{[]uint64{98, 0, 2, 0}, 0.99, 3},
		{[]uint64{0, 0, 0, 3}, 0.5, 4},
	} {
		got := math.NaN()
		if q := (Latency{Bounds: bounds, Counts: c.counts}).Quantile(c.p); q != nil {
			got = *q
		}
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("Quantile(%v) of %v = %v, want %v", c.p, c.counts, got, c.want)
		}
	}
	if got := (Latency{Bounds: bounds, Counts: []uint64{5, 7, 0, 1}}).Since(Latency{Bounds: bounds, Counts: []uint64{5, 3, 0, 0}}); got.Counts[0] != 0 || got.Counts[1] != 4 || got.Counts[3] != 1 {
		t.Errorf("since: %v", got.Counts)
	}
}

func TestRing(t *testing.T) {
	var r Ring
	if got := r.After(0); len(got) != 0 {
		t.Errorf("an empty ring has %d", len(got))
	}
	for i := range int64(Kept + 50) {
		r.Add(Tick{At: time.Unix(1000+i, 0)})
	}
	all := r.After(0)
	if len(all) != Kept || all[0].ID != 1050 || all[Kept-1].ID != 1649 {
		t.Fatalf("%d ticks from %d to %d", len(all), all[0].ID, all[len(all)-1].ID)
	}
	for _, c := range []struct {
		after int64
		n     int
	}{{1049, Kept}, {1050, Kept - 1}, {1648, 1}, {1649, 0}, {9999, 0}} {
		if got := r.After(c.after); len(got) != c.n {
			t.Errorf("after %d there are %d, want %d", c.after, len(got), c.n)
		}
	}
	if back := r.Add(Tick{At: time.Unix(5, 0)}); back.ID != 1650 {
		t.Errorf("the clock was set back: ID %d, want 1650", back.ID)
	}
}

// TestAdd: two cumulative histograms with the same bounds are added up.
func TestAdd(t *testing.T) {
	var l Latency
	for range 2 {
		for i, n := range []uint64{1, 3, 3} {
			l.Add(float64(i+1), n)
		}
		l.Add(math.Inf(1), 7)
	}
	if !slices.Equal(l.Bounds, []float64{1, 2, 3}) || !slices.Equal(l.Counts, []uint64{2, 4, 0, 8}) {
		t.Errorf("%v %v", l.Bounds, l.Counts)
	}
}

// TestLatest: the latest ticks come in their order, as many as there are.
func TestLatest(t *testing.T) {
	var r Ring
	if got := r.Latest(1); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
	for i := range int64(Kept + 2) {
		r.Add(Tick{At: time.Unix(1000+i, 0)})
	}
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, Kept: Kept, Kept + 9: Kept} {
		if got := r.Latest(n); len(got) != want || want > 0 && (got[0].ID != 1000+int64(Kept+2-want) || got[want-1].ID != 1000+Kept+1) {
			t.Errorf("the latest %d are %d", n, len(got))
		}
	}
}
