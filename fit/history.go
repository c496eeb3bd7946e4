package fit

import "sort"

// A history is that of a SlidingLog with other callers: n requests from one time to
// another, of which the number varies by as much as slack says.
type history struct{ runs []event }

func (l *history) add(from, to, n, vary float64, times []float64) {
	l.runs = append(l.runs, event{from: from, to: to, n: n, slack: vary, times: times})
}

// since is what was used after t.
func (l *history) since(t float64) (used, vary float64) {
	for i := len(l.runs) - 1; i >= 0; i-- {
		r := &l.runs[i]
		part := r.after(t)
		if part <= 0 && r.to < t {
			break
		}
		used, vary = used+part*r.n, vary+part*r.slack
	}
	return used, vary
}

// after is which part of a run was after t.
func (e *event) after(t float64) float64 {
	switch {
	case e.from >= t:
		return 1
	case e.to <= t:
		return 0
	case len(e.times) > 0:
		k := sort.Search(len(e.times), func(i int) bool { return e.times[i] > t })
		return float64(len(e.times)-k) / float64(len(e.times))
	}
	return (e.to - t) / (e.to - e.from)
}

// shift moves what was used after t by off, where it varies.
func (l *history) shift(t, off, from, to float64) {
	if from <= 1e-9 {
		if off > 0 {
			l.add(l.last(), l.last(), off, to, nil)
		}
		return
	}
	for i := len(l.runs) - 1; i >= 0 && l.runs[i].to >= t; i-- {
		r := &l.runs[i]
		if r.slack > 0 {
			r.n = max(0, r.n+off*r.slack/from)
			r.slack *= to / from
		}
	}
}

func (l *history) last() float64 {
	if k := len(l.runs); k > 0 {
		return l.runs[k-1].to
	}
	return 0
}
