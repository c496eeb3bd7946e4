package fit

import (
	"cmp"
	"math"
	"slices"
)

// A window is one way in which windows from the first request may have begun,
// others' requests among them, which are not seen: its end lies evenly between
// two times. The windows of a scorer are all such ways, with their weights.
type window struct {
	lo, hi float64 // of its end
	mean   float64 // used in it
	vary   float64
	weight float64
	none   bool // it has ended, and the next request begins another
}

const (
	mostWindows = 12   // ways that are followed
	rare        = 1e-5 // a weight that is not
)

// firstCost is the negative log-likelihood of the events under windows from the
// first request, of other callers too, as far as it is below bound: the sum over
// the times at which each window may have begun.
func (c *scorer) firstCost(p *params, bound float64) (sum float64) {
	f := firsts{p: p, blur: c.blur(p), off: max(c.tr.jitter, 5e-4), at: c.events[c.from].from, all: c.windows[:0], spare: c.spare[:0]}
	f.rest(c.events[c.from].from, 1)
	for i := c.from; i < len(c.events); i++ {
		if sum += f.answer(&c.events[i]); sum > bound {
			break
		}
	}
	c.windows, c.spare = f.all, f.spare
	return sum
}

// firsts follows all ways.
type firsts struct {
	p     *params
	blur  float64
	off   float64 // seconds by which a beginning is not known
	at    float64 // of the last event
	none  float64 // weight of those in which the next request begins a window
	all   []window
	spare []window
}

// answer counts an event, and returns what it costs.
func (f *firsts) answer(e *event) float64 {
	t := e.from + e.hi - e.to // the latest at which it may have been served
	if e.n == 0 {
		t = e.lo
	}
	f.begin(max(t, f.at))
	if f.none > 0 {
		f.all = append(f.all, window{none: true, weight: f.none, lo: e.from, hi: e.from})
		f.none = 0
	}
	if e.to > f.at {
		f.split(e.to)
	}
	f.at = max(e.to, t, f.at)
	sum := 0.0
	for i := range f.all {
		w := &f.all[i]
		if e.n == 0 {
			w.weight *= f.refused(w, e)
		} else {
			w.weight *= f.served(w, e)
		}
		if e.told == e.told {
			off := f.p.n - w.mean - e.told
			w.weight *= math.Exp(-heardCost(off, w.vary))
			gain := w.vary / (w.vary + 0.3)
			w.mean, w.vary = w.mean+gain*off, w.vary*(1-gain)
		}
		sum += w.weight
	}
	for i := range f.all {
		f.all[i].weight /= sum
	}
	f.thin()
	return -math.Log(sum)
}

// split makes two of each window that may end before t or after it.
func (f *firsts) split(t float64) {
	for i := range f.all {
		w := &f.all[i]
		if w.lo >= t || w.hi <= t {
			continue
		}
		late := *w
		part := (t - w.lo) / (w.hi - w.lo)
		w.hi, w.weight = t, w.weight*part
		late.lo, late.weight = t, late.weight*(1-part)
		f.all = append(f.all, late)
	}
}

// begin moves every window to t: where it has ended, others may have begun the
// next, or none has.
func (f *firsts) begin(t float64) {
	f.split(t)
	was, more := append(f.spare[:0], f.all...), f.p.others*(t-f.at)
	f.all = f.all[:0]
	if f.none > 0 {
		w := window{lo: f.at, hi: f.at, weight: f.none}
		f.none = 0
		f.next(w, t)
	}
	for _, w := range was {
		if w.hi <= t {
			f.next(w, t)
			continue
		}
		w.mean, w.vary = atMost(w.mean+more, w.vary+more, f.p.n)
		f.all = append(f.all, w)
	}
	f.spare = was
}

// next adds what may have begun from the end of w to t.
func (f *firsts) next(w window, t float64) {
	p := f.p
	if w.weight < rare {
		return
	}
	cycle := p.period + 1/p.others
	if k := math.Floor((t-w.hi)/cycle) - 1; k > 0 {
		off := math.Sqrt(3*k) / p.others
		if off > p.period/3 {
			f.rest(t, w.weight)
			return
		}
		w.lo, w.hi = w.lo+k*cycle-off, w.hi+k*cycle+off
	}
	begun := func(s float64) float64 { return 1 - vacant(w.lo, w.hi, s, p.others) }
	all := begun(t)
	if f.none += w.weight * (1 - all); all < 1e-6 {
		return
	}
	from, was := w.lo, 0.0
	for _, part := range [...]float64{0.25, 0.5, 0.75, 1} {
		to := w.lo + (t-w.lo)*part
		if last := w.hi + 5/p.others*part; last < to { // most begin soon after the end
			to = last
		}
		if part == 1 {
			to = t
		}
		x := begun(to)
		next := window{lo: from + p.period, hi: to + p.period, weight: w.weight * (x - was)}
		next.mean = 1
		from, was = to, x
		f.pass(next, t)
	}
}

// pass adds a window that others began, as it is at t: or what follows it.
func (f *firsts) pass(w window, t float64) {
	switch {
	case w.hi <= t:
		f.next(w, t)
		return
	case w.lo < t:
		early := w
		early.hi, early.weight = t, w.weight*(t-w.lo)/(w.hi-w.lo)
		f.next(early, t)
		w.lo, w.weight = t, w.weight-early.weight
	}
	if w.weight >= rare {
		f.all = append(f.all, f.busy(w, t))
	}
}

// busy is w with what others have used since it began.
func (f *firsts) busy(w window, t float64) window {
	more := f.p.others * (t - (w.lo+w.hi)/2 + f.p.period)
	wide := f.p.others * (w.hi - w.lo)
	w.mean, w.vary = w.mean+more, w.vary+more+wide*wide/12
	w.mean, w.vary = atMost(w.mean, w.vary, f.p.n)
	return w
}

// vacant is the probability that nothing of others came from the end of a window,
// which lies evenly between two times, to s.
func vacant(lo, hi, s, others float64) float64 {
	switch {
	case s <= lo:
		return 1
	case others*(hi-lo) < 1e-6:
		return math.Exp(-others * (s - lo))
	case s <= hi:
		return 1 - (s-lo)/(hi-lo) + (1-math.Exp(-others*(s-lo)))/(others*(hi-lo))
	}
	return (math.Exp(-others*(s-hi)) - math.Exp(-others*(s-lo))) / (others * (hi - lo))
}

// rest adds the windows after a long time in which nothing was sent.
func (f *firsts) rest(t, weight float64) {
	p := f.p
	busy := p.others * p.period
	f.none += weight / (1 + busy)
	for _, i := range [...]float64{0, 1, 2, 3} {
		w := window{lo: t + i*p.period/4, hi: t + (i+1)*p.period/4, mean: 1, weight: weight * busy / (1 + busy) / 4}
		f.all = append(f.all, f.busy(w, t))
	}
}

// refused returns the probability of a refusal in w, and makes it full.
func (f *firsts) refused(w *window, e *event) float64 {
	likely := strange
	if !w.none {
		used := w.mean + f.p.others*(e.to-e.from) + e.slack
		likely = f.likely(used, w.vary, f.p.n-0.5, 1)
		w.mean, w.vary = f.p.n, 0
		return likely
	}
	w.none, w.lo, w.hi = false, e.to+f.p.period-f.off, e.to+f.p.period+f.off
	w.mean, w.vary = f.p.n, 0
	return likely
}

// likely is the probability that more than a limit is used, or where side is -1
// less.
func (f *firsts) likely(used, vary, limit, side float64) float64 {
	return strange + (1-strange)*normal(side*skewed(used-limit, vary, f.blur))
}

// served returns the probability of a run in w.
func (f *firsts) served(w *window, e *event) float64 {
	p, n, from, likely := f.p, e.n, e.from, 1.0
	every := (e.to - e.from) / max(n, 1)
	if w.none {
		*w = window{lo: from + p.period - f.off, hi: from + p.period + f.off, weight: w.weight}
	}
	if long := e.to - from; long > 4*p.period {
		n, from = n*4*p.period/long, e.to-4*p.period
		*w = window{lo: from + p.period - f.off, hi: from + p.period + f.off, weight: w.weight, mean: w.mean}
	}
	for range 5 {
		end := (w.lo + w.hi) / 2
		if end >= e.to || e.to <= from || e.to-end < end-w.lo {
			break
		}
		part := n * max(0, end-from) / (e.to - from)
		likely *= f.take(w, part, max(0, end-from), f.blur+0.5)
		n, from = n-part, max(from, end)
		*w = window{lo: w.lo + p.period, hi: w.hi + p.period + every, weight: w.weight}
	}
	return likely * f.take(w, n, e.to-from, f.blur)
}

// take counts n served in w, and returns how likely that is.
func (f *firsts) take(w *window, n, took, blur float64) float64 {
	more := f.p.others * took
	w.mean, w.vary = w.mean+n+more, w.vary+more
	d := crowd{p: f.p, mean: w.mean, vary: w.vary}
	likely := math.Exp(-d.learn(d.mean, d.vary, blur, -1))
	w.mean, w.vary = d.mean, d.vary
	return likely
}

// thin drops what is hardly likely, and joins neighbours that say nearly the
// same, ever less nearly while there are too many.
func (f *firsts) thin() {
	for off := 1e-5; ; off *= 8 {
		f.all = slices.DeleteFunc(f.all, func(w window) bool { return w.weight < rare })
		if len(f.all) <= mostWindows {
			return
		}
		if off < 2e-5 {
			slices.SortFunc(f.all, func(a, b window) int { return cmp.Compare(a.lo, b.lo) })
		}
		k := 0
		for _, w := range f.all[1:] {
			if last := &f.all[k]; f.lost(last, &w) < off {
				last.join(&w)
				continue
			}
			k++
			f.all[k] = w
		}
		f.all = f.all[:k+1]
	}
}

// lost is what is lost if two windows become one.
func (f *firsts) lost(a, b *window) float64 {
	wide := (max(a.hi, b.hi) - a.lo) / f.p.period
	return min(a.weight, b.weight) * (1e-3 + wide + math.Abs(a.mean-b.mean)/f.p.n)
}

// join makes one of two windows.
func (w *window) join(o *window) {
	sum := w.weight + o.weight
	a, b := w.weight/sum, o.weight/sum
	mean := a*w.mean + b*o.mean
	w.vary = a*(w.vary+(w.mean-mean)*(w.mean-mean)) + b*(o.vary+(o.mean-mean)*(o.mean-mean))
	w.lo, w.hi, w.mean, w.weight = min(w.lo, o.lo), max(w.hi, o.hi), mean, sum
}
