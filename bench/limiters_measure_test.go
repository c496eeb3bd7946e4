package bench

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	rounds = 60
	sample = 5 * time.Millisecond // short, so that few are interrupted
	widths = 2                    // one goroutine, and two
)

// A figure is what was measured of one limiter in one cell.
type figure struct {
	ns    [widths]float64 // for each decision; the median of the rounds
	wrong float64         // the largest share of wrong answers
}

// A subject is a limiter that is being measured.
type subject struct {
	peer *limiterPeer
	ask  allow
	at   int // where the next sample goes on
	ns   [widths][]float64
	figure
}

// measure measures all peers in one cell, in turn and over and over, so that what
// else the machine does is the same for all.
func measure(t *testing.T, c cell, peers []limiterPeer, rounds int) map[string]figure {
	defer endSweepers()
	all, kept, asked := []*subject{}, c.keyText(nil), c.asked()
	for i := range peers {
		if p := &peers[i]; c.has(p) {
			all = append(all, &subject{peer: p, ask: p.make(c.quota(), c.keys)})
			all[len(all)-1].fill(c, kept)
		}
	}
	runtime.GC()
	for r := range rounds {
		for i := range all {
			s := all[(i+r)%len(all)]
			for w := range widths {
				s.sample(c, asked, w)
			}
		}
	}
	found := map[string]figure{}
	for _, s := range all {
		for w := range widths {
			s.figure.ns[w] = median(s.ns[w])
		}
		if ourName(s.peer.name) && s.wrong > 0.001 {
			t.Errorf("%s, %v: %.2f %% of the answers are wrong", s.peer.name, c, 100*s.wrong)
		}
		found[s.peer.name] = s.figure
	}
	runtime.KeepAlive(kept)
	return found
}

// fill asks for each key once, and, where they are to owe for longer than it takes
// to come round, some times more. Nothing is collected meanwhile, as long as there is
// memory: that would take longer than all the rest.
func (s *subject) fill(c cell, kept *text) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(12 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	times := 1
	if c.debt == owes && ourName(s.peer.name) {
		times = 5
	}
	for range times {
		for i := range c.keys {
			s.ask(kept.key(i))
		}
	}
}

// sample asks for a while, on so many goroutines more than one. The next goes on
// with the keys where this one ends.
func (s *subject) sample(c cell, asked *text, more int) {
	for i := range 1000 { // the caches are full of what others keep
		s.ask(asked.key((s.at + i) % asked.n))
	}
	s.at = (s.at + 1000) % asked.n
	var count, wrong, last atomic.Int64
	var wait sync.WaitGroup
	workers, began := 1+more, time.Now()
	for w := range workers {
		wait.Go(func() {
			at, n, bad := (s.at+w*asked.n/workers)%asked.n, int64(0), int64(0)
			for time.Since(began) < sample {
				for range 500 {
					if s.ask(asked.key(at)) == (c.debt == spent) {
						bad++
					}
					if at++; at == asked.n {
						at = 0
					}
				}
				n += 500
			}
			count.Add(n)
			wrong.Add(bad)
			if w == 0 {
				last.Store(int64(at))
			}
		})
	}
	wait.Wait()
	s.ns[more] = append(s.ns[more], float64(time.Since(began))/float64(count.Load()))
	s.at = int(last.Load())
	if s.peer.name != rateName || c.debt != spent {
		s.wrong = max(s.wrong, float64(wrong.Load())/float64(count.Load()))
	}
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
