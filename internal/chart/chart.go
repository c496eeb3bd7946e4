// Package chart draws lines and dots over an axis, as text for terminals and golden
// files and as SVG for documents. The same chart always gives the same bytes,
// and however many points there are, a spike of a single one is seen.
package chart

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Chart holds lines and dots to draw over an axis. It is not changed by drawing.
type Chart struct {
	Title string
	// X and Y are what the axes measure, as "s" or "requests a second". May be
	// empty.
	X, Y string
	// Series are the lines. Where they meet, earlier ones lie on top.
	Series []Series
}

// Series is one line.
type Series struct {
	Name string
	// X and Y are the points, as many of the one as of the other, X never
	// falling. A point that is not a number, or beyond ±1e300, is left out and
	// interrupts the line.
	X, Y []float64
	// Mark is the character that Text draws with. If zero, it depends on the
	// place in Chart.Series.
	Mark rune
	// Dot, if above zero, makes of each point a dot of that many pixels, at
	// most 20, and leaves out the line.
	Dot float64
}

// huge is where sums of two values could overflow.
const huge = 1e300

// drawable reports whether point i is part of the line.
func (s Series) drawable(i int) bool {
	return math.Abs(s.X[i]) <= huge && math.Abs(s.Y[i]) <= huge // false for NaN
}

func (s Series) check() error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("chart: series %q: %d X for %d Y", s.Name, len(s.X), len(s.Y))
	}
	last := math.Inf(-1)
	for i, x := range s.X {
		if !s.drawable(i) {
			continue
		}
		if x < last {
			return fmt.Errorf("chart: series %q: X falls from %v to %v at point %d", s.Name, last, x, i)
		}
		last = x
	}
	return nil
}

func (c Chart) check() error {
	for _, s := range c.Series {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// box is the least rectangle around points.
type box struct{ x0, x1, y0, y1 float64 }

// bounds is the box around all that is drawn; ok is false if nothing is.
func (c Chart) bounds() (b box, ok bool) {
	inf := math.Inf(1)
	b = box{inf, -inf, inf, -inf}
	for _, s := range c.Series {
		for i := range s.X {
			if s.drawable(i) {
				ok = true
				b.x0, b.x1 = min(b.x0, s.X[i]), max(b.x1, s.X[i])
				b.y0, b.y1 = min(b.y0, s.Y[i]), max(b.y1, s.Y[i])
			}
		}
	}
	return b, ok
}

// point is in units of columns or pixels, from the upper left.
type point struct{ x, y float64 }

// lines are the unbroken parts of s, placed by the scales on an area whose
// right and lower edges are given.
func (s Series) lines(x, y scale, right, bottom float64) (lines [][]point) {
	var line []point
	for i := range s.X {
		if s.drawable(i) {
			line = append(line, point{x.place(s.X[i]) * right, bottom - float64(y.place(s.Y[i])*bottom)})
		}
		if s.drawable(i) && !(s.Dot > 0) {
			continue
		}
		if line != nil {
			lines, line = append(lines, line), nil
		}
	}
	if line != nil {
		lines = append(lines, line)
	}
	return lines
}

// clean is text on one line, without control characters.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
