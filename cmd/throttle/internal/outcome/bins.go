package outcome

import "time"

const mostBins = 2048

// bins count over time. They begin as seconds, and double in width when there would
// be more than mostBins, so that any span fits. Times do not fall.
type bins struct {
	start time.Time
	width time.Duration
	all   []Bin
}

// A Bin counts what happened in one part of the time.
type Bin struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

// at returns the bin of a time, not before those of earlier calls.
func (b *bins) at(t time.Time) *Bin {
	if b.width == 0 {
		b.width, b.start = time.Second, t.Truncate(time.Second)
	}
	i := int(max(t.Sub(b.start), 0) / b.width)
	for ; i >= mostBins; i = int(t.Sub(b.start) / b.width) {
		b.double()
	}
	for len(b.all) <= i {
		b.all = append(b.all, Bin{})
	}
	return &b.all[i]
}

// double joins each two bins. They stay where multiples of their width are.
func (b *bins) double() {
	wide := 2 * b.width
	start := b.start.Truncate(wide)
	shift := 0
	if start.Before(b.start) {
		shift = 1
	}
	joined := make([]Bin, (len(b.all)+shift+1)/2)
	for i, x := range b.all {
		joined[(i+shift)/2].Requests += x.Requests
		joined[(i+shift)/2].Refused += x.Refused
	}
	b.start, b.width, b.all = start, wide, joined
}
