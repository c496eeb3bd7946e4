package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestScaleLabels(t *testing.T) {
	for _, c := range []struct {
		lo, hi         float64
		ticks          int
		inside, around string
	}{
		{0, 1, 4, "0 0.5 1.0", "0 0.5 1.0"},
		{0, 1, 5, "0 0.2 0.4 0.6 0.8 1.0", "0 0.2 0.4 0.6 0.8 1.0"},
		{0, 0.7, 7, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7", "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		{0, 1800, 6, "0 500 1000 1500", "0 500 1000 1500 2000"},
		{7, 93, 5, "20 40 60 80", "0 20 40 60 80 100"},
		{-0.03, 0.02, 5, "-0.03 -0.02 -0.01 0 0.01 0.02", "-0.03 -0.02 -0.01 0 0.01 0.02"},
		{0, 4500, 3, "0 2k 4k", "0 2k 4k 6k"},
		{0, 45e6, 5, "0 10M 20M 30M 40M", "0 10M 20M 30M 40M 50M"},
		{1e9, 4e9, 3, "1G 2G 3G 4G", "1G 2G 3G 4G"},
		{0, 9e15, 3, "0 5e+15", "0 5e+15 1e+16"},
		{0, 3e-9, 3, "0 1e-09 2e-09 3e-09", "0 1e-09 2e-09 3e-09"},
		{1, 1 + 2.5e-8, 3, "1 1.00000001 1.00000002", "1 1.00000001 1.00000002 1.00000003"},
		{-5, -1, 2, "-4 -2", "-6 -4 -2 0"},
		{0, 10, 0, "0 10", "0 10"},
	} {
		for i, want := range []string{c.inside, c.around} {
			s := []func(lo, hi float64, ticks int) scale{inside, around}[i](c.lo, c.hi, c.ticks)
			var labels []string
			for i := s.first; i <= s.last; i++ {
				labels = append(labels, s.label(i))
			}
			if got := strings.Join(labels, " "); got != want {
				t.Errorf("scale %d of %v to %v in %d: %s, want %s", i, c.lo, c.hi, c.ticks, got, want)
			}
		}
	}
}

// Labels for which there is no room are left out, their marks are not.
func TestUnder(t *testing.T) {
	axis, labels := inside(0, 1, 5).under(12)
	if axis != "┬─┬─┬──┬─┬─┬" || labels != "0  0.4  0.8" {
		t.Errorf("under:\n%s\n%s", axis, labels)
	}
}

// Any range gets a few marks, and all that is in it gets a place.
func FuzzScale(f *testing.F) {
	for _, lo := range []float64{-huge, -1, 0, 5e-324, 1e-300, 1, 1.7e9, huge} {
		for _, hi := range []float64{-huge, -1e-308, 0, 5e-324, 1 + 1e-15, 1e9, huge} {
			f.Add(lo, hi, 5)
		}
	}
	f.Fuzz(func(t *testing.T, lo, hi float64, ticks int) {
		if !(math.Abs(lo) <= huge && math.Abs(hi) <= huge) || ticks < 0 || ticks > 100 {
			return
		}
		lo, hi = widen(min(lo, hi), max(lo, hi))
		for _, s := range []scale{inside(lo, hi, ticks), around(lo, hi, ticks)} {
			if n := s.last - s.first + 1; n < 0 || n > max(ticks, 1)+3 {
				t.Errorf("%v to %v in %d: %d marks", lo, hi, ticks, n)
			}
			for _, v := range []float64{lo, lo/2 + hi/2, hi} {
				if p := s.place(v); !(p >= -1e-6 && p <= 1+1e-6) {
					t.Errorf("%v to %v in %d: %v is at %v", lo, hi, ticks, v, p)
				}
			}
			for i := s.first; i <= s.last; i++ {
				if label := s.label(i); label == "" || strings.Contains(label, "N") || len(label) > 24 {
					t.Errorf("%v to %v in %d: %s", lo, hi, ticks, fmt.Sprintf("label %q of %v", label, s.tick(i)))
				}
			}
		}
	})
}
