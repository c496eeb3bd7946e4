package fit

import "sort"

// A history is that of a SlidingLog with other callers: n requests from one time to
// another, of which the number varies by as much as slack says. The sum of the known first
// of them is less uncertain, by a share of the variance of the whole.
type history struct {
	runs         []event
	known        int
	whole, share float64
}

func (l *history) add(from, to, n, vary float64, times []float64) {
	l.runs = append(l.runs, event{from: from, to: to, n: n, slack: vary, times: times})
}

// since is what was used after t, and its variance. Of what was there when the sum was
// known, a part varies as one of a known whole does: the most where half of it is gone.
func (l *history) since(t float64) (used, vary float64) {
	old, fresh := 0.0, 0.0
	for i := len(l.runs) - 1; i >= 0; i-- {
		r := &l.runs[i]
		part := r.after(t)
		if part <= 0 && r.to < t {
			break
		}
		if used += part * r.n; i < l.known {
			old += part * r.slack
		} else {
			fresh += part * r.slack
		}
	}
	if l.known > 0 && l.whole > 0 {
		old *= 1 - l.share*min(1, old/l.whole)
	}
	return used, fresh + old
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

// shift moves what was used after t by off, where it varies, and sets the variance of all
// of it.
func (l *history) shift(t, off, to float64) {
	whole := 0.0
	for i := len(l.runs) - 1; i >= 0 && l.runs[i].to >= t; i-- {
		whole += l.runs[i].after(t) * l.runs[i].slack
	}
	if whole <= 1e-9 {
		if off > 0 {
			l.add(l.last(), l.last(), off, to, nil)
		}
		return
	}
	for i := len(l.runs) - 1; i >= 0 && l.runs[i].to >= t; i-- {
		r := &l.runs[i]
		r.n = max(0, r.n+off*r.slack/whole)
	}
	l.known, l.whole, l.share = len(l.runs), whole, 1-min(1, to/whole)
}

func (l *history) last() float64 {
	if k := len(l.runs); k > 0 {
		return l.runs[k-1].to
	}
	return 0
}
