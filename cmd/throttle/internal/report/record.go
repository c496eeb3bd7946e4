package report

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Bounds of what is kept of one run to be drawn, whatever the run's length.
const (
	maxSlices = 512  // of time
	maxDots   = 2048 // drawn by lot, of each verdict, besides the extremes
	maxLines  = 20   // workers with a line of their own
	// maxDrawn is how many requests are played again at most to be drawn, some
	// seconds of work; the charts then end early and say so.
	maxDrawn = 20_000_000
)

// dot is a figure and when it was so.
type dot struct {
	at time.Duration
	y  float64
}

// extent is the least and the greatest of some dots, their number and sum.
type extent struct {
	low, high dot
	n         int64
	sum       float64
}

func (e *extent) add(d dot) { e.merge(extent{d, d, 1, d.y}) }

func (e *extent) merge(f extent) {
	if f.n == 0 {
		return
	}
	if e.n == 0 || f.low.y < e.low.y {
		e.low = f.low
	}
	if e.n == 0 || f.high.y > e.high.y {
		e.high = f.high
	}
	e.n, e.sum = e.n+f.n, e.sum+f.sum
}

// spectrum counts durations in four classes to each doubling of a microsecond.
type spectrum [4 * 64]uint32

func (s *spectrum) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 0))
	class := int(us)
	if us >= 4 {
		exp := bits.Len64(us) - 3
		class = 4*exp + int(us>>exp)
	}
	s[class]++
}

// median is within an eighth of the true one.
func (s *spectrum) median() time.Duration {
	var total, seen uint64
	for _, n := range s {
		total += uint64(n)
	}
	for class, n := range s {
		if seen += uint64(n); 2*seen >= total && n > 0 {
			if class < 4 {
				return time.Duration(class) * time.Microsecond
			}
			exp := class/4 - 1
			low := uint64(4+class%4) << exp
			return time.Duration(low+(uint64(1)<<exp)/2) * time.Microsecond
		}
	}
	return 0
}

// slice is what happened in a slice of time.
type slice struct {
	lines    []extent  // how long each worker waited, if few
	all      extent    // the same of all workers together, if many
	spectrum *spectrum // of all
	answers  [3]extent // how long what was answered had waited, by verdict
	count    [3]int64  // of answers
	level    extent
	capacity float64 // at its end
	any      bool
	inFlight extent // of a process, on average
	limit    extent // of it
	took     extent // by answers, in seconds
}

// merge adds the slice after s to s.
func (s *slice) merge(t *slice) {
	for i := range t.lines {
		s.lines[i].merge(t.lines[i])
	}
	s.all.merge(t.all)
	if t.spectrum != nil {
		for i, n := range t.spectrum {
			s.spectrum[i] += n
		}
	}
	for v := range t.answers {
		s.answers[v].merge(t.answers[v])
		s.count[v] += t.count[v]
	}
	s.level.merge(t.level)
	s.inFlight.merge(t.inFlight)
	s.limit.merge(t.limit)
	s.took.merge(t.took)
	if t.any {
		s.capacity, s.any = t.capacity, true
	}
}

// sampler keeps every dot until there are too many, then lowers the chance of
// each to be kept: at any time what it has is an even choice of all it saw.
type sampler struct {
	seen uint64
	most int
	odds float64
	kept []dot
	luck []float64
}

func (s *sampler) add(d dot) {
	s.seen++
	luck := pace.Luck(s.seen).Unit(0)
	if luck >= s.odds {
		return
	}
	s.kept, s.luck = append(s.kept, d), append(s.luck, luck)
	for len(s.kept) > s.most {
		s.odds *= 0.9
		n := 0
		for i, l := range s.luck {
			if l < s.odds {
				s.kept[n], s.luck[n], n = s.kept[i], l, n+1
			}
		}
		s.kept, s.luck = s.kept[:n], s.luck[:n]
	}
}

// recorder keeps of one run what is drawn. Time is divided into equal slices
// whose width doubles, two becoming one, whenever there would be more than
// most. Of each slice the extremes are kept, so that no peak is lost.
type recorder struct {
	slices []slice
	width  time.Duration
	most   int
	first  []int // worker of each process
	lines  int   // how many there are; 0: too many workers
	dots   [3]sampler
	end    time.Duration
	flying int // requests of all processes
}

// newRecorder prepares to watch a run of s. detail divides the bounds.
func newRecorder(s sim.Scenario, detail int) *recorder {
	r := &recorder{width: time.Millisecond, most: maxSlices / detail}
	for i := range r.dots {
		r.dots[i] = sampler{most: maxDots / detail, odds: 1}
	}
	workers := 0
	for _, g := range s.Clients {
		for range g.Processes {
			r.first = append(r.first, workers)
			workers += g.Workers
		}
	}
	if workers <= maxLines {
		r.lines = workers
	}
	return r
}

// slice is the slice of an instant.
func (r *recorder) slice(at time.Duration) *slice {
	for at >= r.width*time.Duration(r.most) {
		r.widen()
	}
	for i := int(at / r.width); len(r.slices) <= i; {
		s := slice{lines: make([]extent, r.lines)}
		if r.lines == 0 {
			s.spectrum = new(spectrum)
		}
		r.slices = append(r.slices, s)
	}
	return &r.slices[at/r.width]
}

// widen doubles the width of the slices.
func (r *recorder) widen() {
	n := 0
	for i := 0; i < len(r.slices); i += 2 {
		if i+1 < len(r.slices) {
			r.slices[i].merge(&r.slices[i+1])
		}
		r.slices[n] = r.slices[i]
		n++
	}
	clear(r.slices[n:])
	r.slices = r.slices[:n]
	r.width *= 2
}

// watch is for sim.Run.Watch.
func (r *recorder) watch(p sim.Point) {
	r.end = max(r.end, p.At)
	s := r.slice(p.At)
	d := dot{p.At, p.Slept.Seconds()}
	s.level.add(dot{p.At, p.Level})
	s.capacity, s.any = p.Capacity, true
	if p.Sent {
		r.flying++
	} else {
		r.flying--
	}
	s.inFlight.add(dot{p.At, float64(r.flying) / float64(len(r.first))})
	if p.Limit > 0 {
		s.limit.add(dot{p.At, float64(p.Limit)})
	}
	switch {
	case !p.Sent:
		s.took.add(dot{p.At, p.Took.Seconds()})
		if v := int(p.Verdict) - int(pace.Served); v >= 0 {
			s.count[v]++
			s.answers[v].add(d)
			r.dots[v].add(d)
		}
	case r.lines > 0:
		s.lines[r.first[p.Process]+p.Worker].add(d)
	default:
		s.all.add(d)
		s.spectrum.add(p.Slept)
	}
}

// drawn is the dots of one verdict in order of time: those drawn by lot and the
// extremes of every slice.
func (r *recorder) drawn(verdict int) []dot {
	dots := slices.Clone(r.dots[verdict].kept)
	for i := range r.slices {
		if e := r.slices[i].answers[verdict]; e.n > 0 {
			dots = append(dots, e.low, e.high)
		}
	}
	slices.SortFunc(dots, func(a, b dot) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.y, b.y))
	})
	return slices.Compact(dots)
}

// record plays the first run of a policy again and returns what was seen of it.
func record(s sim.Scenario, p sim.Policy, seed uint64, detail int) trace {
	r := newRecorder(s, detail)
	run := sim.New(s, p, seed)
	run.MaxSent, run.Watch = maxDrawn, r.watch
	for !run.Step(batch.EventsBetweenLooks) {
	}
	result := run.Result()
	r.end = ended(result, s, r.end)
	r.slice(r.end) // so that rates are zero, and not those of the last answers, from then on
	t := r.trace(s)
	t.Seed, t.Cut = seed, result.Cut
	return t
}

// ended is when a run ended whose last request was sent or answered at last.
func ended(r sim.Result, s sim.Scenario, last time.Duration) time.Duration {
	switch {
	case r.Finish.OK:
		return time.Duration(r.Finish.V * float64(time.Second))
	case s.Duration > 0 && !r.Cut:
		return s.Duration
	}
	return last
}
