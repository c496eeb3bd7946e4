package outcome

import (
	"slices"
	"time"
)

const mostBins = 2048

// widths are those that bins have, one after the other; then each twice the one before.
var widths = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// bins count over time. They begin as seconds, and become wider when there would be
// more than mostBins, so that any span fits. Times do not fall.
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
		b.widen()
	}
	for len(b.all) <= i {
		b.all = append(b.all, Bin{})
	}
	return &b.all[i]
}

// widen joins bins into wider ones, which begin where multiples of their width are.
func (b *bins) widen() {
	wide := 2 * b.width
	if i := slices.Index(widths, b.width); i >= 0 && i+1 < len(widths) {
		wide = widths[i+1]
	}
	start := b.start.Truncate(wide)
	shift, ratio := int(b.start.Sub(start)/b.width), int(wide/b.width)
	joined := make([]Bin, (len(b.all)+shift+ratio-1)/ratio)
	for i, x := range b.all {
		joined[(i+shift)/ratio].Requests += x.Requests
		joined[(i+shift)/ratio].Refused += x.Refused
	}
	b.start, b.width, b.all = start, wide, joined
}
