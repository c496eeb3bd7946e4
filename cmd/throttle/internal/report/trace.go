package report

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/sim"
)

// Rates and means are shown of fewer slices of time than there are, so that
// each has enough answers to make a rate or a mean.
const (
	maxRates = 128
	maxMeans = 96
)

// figures are numbers in JSON, at most 4 digits of each: what a chart can show.
// NaN stands for none.
type figures []float64

var _ json.Marshaler = figures(nil)

// MarshalJSON writes an array.
func (f figures) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range f {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			b = append(b, "null"...)
		case x == 0:
			b = append(b, '0')
		default:
			digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(x)))))
			b = strconv.AppendFloat(b, roundTo(x, digits), 'f', -1, 64)
		}
	}
	return append(b, ']'), nil
}

// instants are times in JSON, in milliseconds, each as the distance from the
// one before: small numbers make a small file.
type instants []time.Duration

var _ json.Marshaler = instants(nil)

// MarshalJSON writes an array.
func (t instants) MarshalJSON() ([]byte, error) {
	b, last := []byte{'['}, int64(0)
	for i, at := range t {
		if i > 0 {
			b = append(b, ',')
		}
		ms := at.Round(time.Millisecond).Milliseconds()
		b = strconv.AppendInt(b, ms-last, 10)
		last = ms
	}
	return append(b, ']'), nil
}

func roundTo(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}

// trace is what the charts of one run are drawn from.
type trace struct {
	Seed uint64 `json:"seed"`
	// End of the run, in seconds.
	End float64 `json:"end_s"`
	// Cut says that the run went on after End.
	Cut bool `json:"cut"`
	// Seen counts what was served, throttled, and failed for other reasons.
	Seen  [3]uint64 `json:"seen"`
	Dots  dotTrace  `json:"dots"`
	Lines lineTrace `json:"lines"`
	Rates rateTrace `json:"rates"`
	Level *oneTrace `json:"level"` // nil: the server has none
	// Flight is nil where the server neither works nor queues, and nothing bounds
	// what is in flight.
	Flight *flightTrace `json:"flight"`
}

// oneTrace is a line.
type oneTrace struct {
	T instants `json:"t_ms"`
	Y figures  `json:"y"`
}

// dotTrace is how long answered requests had waited before they were sent, in
// seconds: those served, throttled and failed.
type dotTrace [3]oneTrace

// lineTrace is how long workers waited before they sent, in seconds.
type lineTrace struct {
	T instants `json:"t_ms"`
	// Workers are the client and the worker of each line of Y, from 1. If
	// empty, Y is the least, the median and the greatest of all workers.
	Workers [][2]int `json:"workers"`
	// Mean is how many seconds each figure is the mean of. If zero, figures
	// are those of single requests.
	Mean float64   `json:"mean_s"`
	Y    []figures `json:"y"`
}

// rateTrace is answers a second from each of T on.
type rateTrace struct {
	T         instants `json:"t_ms"`
	Served    figures  `json:"served"`
	Throttled figures  `json:"throttled"`
	Failed    figures  `json:"failed"`
	Capacity  figures  `json:"capacity"` // nil: the server has none
}

// boundless is a queue of the server that no run fills: nothing is refused, so
// that a level says nothing.
const boundless = 1 << 30

// trace is what has been recorded.
func (r *recorder) trace(s sim.Scenario) trace {
	t := trace{End: r.end.Seconds(), Rates: r.rates(), Flight: r.flight(s)}
	for v := range r.dots {
		t.Seen[v] = r.dots[v].seen
		for _, d := range r.drawn(v) {
			t.Dots[v].T = append(t.Dots[v].T, d.at)
			t.Dots[v].Y = append(t.Dots[v].Y, d.y)
		}
	}
	if r.lines > 0 {
		t.Lines = r.workers()
	} else {
		t.Lines = r.band()
	}
	if len(s.Server.Gap) > 0 || s.Server.Limit.Unlimited() {
		t.Rates.Capacity = nil
		return t
	}
	if s.Server.Queue >= boundless {
		return t
	}
	t.Level = new(oneTrace)
	for i := range r.slices {
		if r.slices[i].any {
			from := r.width * time.Duration(i)
			first, second := inOrder(r.slices[i].level)
			t.Level.T = append(t.Level.T, from+r.width/4, from+r.width*3/4)
			t.Level.Y = append(t.Level.Y, first, second)
		}
	}
	return t
}

// inOrder is the extremes in the order in which they came, and none where they
// are one.
func inOrder(e extent) (first, second float64) {
	none := math.NaN()
	switch {
	case e.n == 0:
		return none, none
	case e.low == e.high:
		return e.low.y, none
	case e.low.at <= e.high.at:
		return e.low.y, e.high.y
	}
	return e.high.y, e.low.y
}

// workers is a line for each worker: the extremes of each slice while that is
// every request or nearly so; the means of longer slices when there are so many
// requests that a line between the extremes would fill the chart.
func (r *recorder) workers() lineTrace {
	t := lineTrace{Workers: r.names(), Y: make([]figures, r.lines)}
	var sent int64
	for i := range r.slices {
		for _, e := range r.slices[i].lines {
			sent += e.n
		}
	}
	if sent > 2*int64(len(r.slices)*r.lines) {
		r.means(&t)
		return t
	}
	for i := range r.slices {
		if !r.slices[i].any {
			continue
		}
		from := r.width * time.Duration(i)
		t.T = append(t.T, from+r.width/4, from+r.width*3/4)
		for w, e := range r.slices[i].lines {
			first, second := inOrder(e)
			t.Y[w] = append(t.Y[w], first, second)
		}
	}
	return t
}

// names is the client and the worker of each line.
func (r *recorder) names() (names [][2]int) {
	for process, first := range r.first {
		next := r.lines
		if process+1 < len(r.first) {
			next = r.first[process+1]
		}
		for w := first; w < next; w++ {
			names = append(names, [2]int{process + 1, w - first + 1})
		}
	}
	return names
}

// means joins slices and adds the mean of each.
func (r *recorder) means(t *lineTrace) {
	join := (len(r.slices) + maxMeans - 1) / maxMeans
	t.Mean = r.width.Seconds() * float64(join)
	for i := 0; i < len(r.slices); i += join {
		t.T = append(t.T, r.width*time.Duration(2*i+join)/2)
		for w := range t.Y {
			var e extent
			for k := i; k < min(i+join, len(r.slices)); k++ {
				e.merge(r.slices[k].lines[w])
			}
			t.Y[w] = append(t.Y[w], e.sum/float64(e.n)) // NaN if there is none
		}
	}
}

// band is the least, the median and the greatest.
func (r *recorder) band() lineTrace {
	t := lineTrace{Workers: [][2]int{}, Y: make([]figures, 3)}
	for i := range r.slices {
		s := &r.slices[i]
		if s.all.n == 0 {
			continue
		}
		t.T = append(t.T, r.width*time.Duration(i)+r.width/2)
		median := min(max(s.spectrum.median().Seconds(), s.all.low.y), s.all.high.y)
		for k, y := range []float64{s.all.low.y, median, s.all.high.y} {
			t.Y[k] = append(t.Y[k], y)
		}
	}
	return t
}

// rates joins slices and divides by their length.
func (r *recorder) rates() rateTrace {
	var t rateTrace
	join := max(1, (len(r.slices)+maxRates-1)/maxRates)
	capacity := math.NaN()
	for i := 0; i < len(r.slices); i += join {
		var sum [3]int64
		for k := i; k < min(i+join, len(r.slices)); k++ {
			for v, n := range r.slices[k].count {
				sum[v] += n
			}
			if r.slices[k].any {
				capacity = r.slices[k].capacity
			}
		}
		from := r.width * time.Duration(i)
		length := min(r.width*time.Duration(join), r.end-from).Seconds()
		if i > 0 && length < r.width.Seconds()*float64(join)/2 {
			break // too short for a rate
		}
		length = max(length, 1e-9)
		t.T = append(t.T, from)
		t.Served = append(t.Served, float64(sum[0])/length)
		t.Throttled = append(t.Throttled, float64(sum[1])/length)
		t.Failed = append(t.Failed, float64(sum[2])/length)
		t.Capacity = append(t.Capacity, capacity)
	}
	return t
}
