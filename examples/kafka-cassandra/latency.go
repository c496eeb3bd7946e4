package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencies is a histogram of durations, to an eighth of each: what it says is
// at most 12.5 % too high. It is safe for concurrent use.
type latencies struct {
	counts [64 * 8]atomic.Int64
}

func (l *latencies) add(d time.Duration) { l.counts[bucket(d)].Add(1) }

// bucket numbers durations: eight between each power of two and the next.
func bucket(d time.Duration) int {
	n := uint64(max(d, 8))
	top := bits.Len64(n) - 1
	return (top-3)*8 + int(n>>(top-3)&7)
}

// most is the longest duration of a bucket.
func most(bucket int) time.Duration {
	return time.Duration(uint64(8+bucket%8+1)<<(bucket/8)) - 1
}

// take returns what was added since the last take.
func (l *latencies) take() (s sample) {
	for i := range l.counts {
		n := l.counts[i].Swap(0)
		s.counts[i] = n
		s.n += n
	}
	return s
}

// sample is what a histogram held.
type sample struct {
	n      int64
	counts [64 * 8]int64
}

// percentile is what p of 100 were not above; zero if there were none.
func (s *sample) percentile(p float64) time.Duration {
	left := int64(p / 100 * float64(s.n))
	for i, n := range s.counts {
		if left -= n; n > 0 && left < 0 || n > 0 && left == 0 && p >= 100 {
			return most(i)
		}
	}
	return 0
}
