package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

// mostCells are of so many keys that no two limiters fit in memory at once, but for
// one of ours.
func mostCells() []cell {
	return []cell{{keys: mostKeys, debt: owes}, {keys: mostKeys, debt: fresh}}
}

// A weight is what the keys of a limiter cost besides time.
type weight struct {
	resident float64       // bytes for each key, as the system counts
	gc       time.Duration // processor time of a collection, without that of the text
}

// weights are by cell and name.
var weights = map[cell]map[string]weight{}

// measureMost measures each of the others beside ours, and alone what its keys cost.
// Who takes more than twice the time of the fastest with a tenth of the keys is left
// out: it takes minutes to fill.
func (r results) measureMost(t *testing.T, all []cell) {
	for _, c := range all {
		r[c], weights[c] = map[string]figure{}, map[string]weight{}
		kept := c.keyText(nil)
		own := []*subject{}
		for i := range limiterPeers {
			if p := &limiterPeers[i]; p.name == takeName || p.name == storeAllowName {
				s := &subject{peer: p}
				weights[c][p.name] = s.weigh(c, kept)
				own = append(own, s)
			}
		}
		for i := range limiterPeers {
			if p := &limiterPeers[i]; r.mayHaveMost(c, p) {
				r.beside(t, c, p, own, kept)
				fmt.Fprintln(os.Stderr, "measured", c, p.name)
			}
		}
		runtime.KeepAlive(kept)
	}
}

func (r results) mayHaveMost(c cell, p *limiterPeer) bool {
	if ourName(p.name) || bareName(p.name) || !c.has(p) {
		return false
	}
	c.keys = manyKeys
	_, best := r.fastest(c, 0)
	return r[c] == nil || r[c][p.name].ns[0] <= 2*best.ns[0] // nil: not chosen to be measured
}

// beside measures p beside ours.
func (r results) beside(t *testing.T, c cell, p *limiterPeer, own []*subject, kept *text) {
	defer endSweepers()
	s := &subject{peer: p}
	weights[c][p.name] = s.weigh(c, kept)
	all := append(slices.Clone(own), s)
	for _, x := range all {
		x.ns = [widths][]float64{}
	}
	for range rounds {
		for _, x := range all {
			for w := range widths {
				x.sample(c, kept, w)
			}
		}
	}
	for i := range all {
		x := all[len(all)-1-i] // p comes first
		for w := range widths {
			// Of ours what was measured beside the fastest counts.
			if name, _ := r.fastest(c, w); x == s || name == p.name {
				f := r[c][x.peer.name]
				f.ns[w], f.wrong = median(x.ns[w]), max(f.wrong, x.wrong)
				r[c][x.peer.name] = f
			}
		}
		if ourName(x.peer.name) && x.wrong > 0.001 {
			t.Errorf("%s, %v: %.2f %% of the answers are wrong", x.peer.name, c, 100*x.wrong)
		}
	}
}

// weigh makes the limiter, fills it, and returns what that costs.
func (s *subject) weigh(c cell, kept *text) weight {
	before, idle := resident(), collection()
	s.ask = s.peer.make(c.quota(), c.keys)
	s.fill(c, kept)
	w := weight{gc: max(collection()-idle, 0)}
	w.resident = float64(resident()-before) / float64(c.keys)
	return w
}

// resident is how many bytes of memory this process has, after what is free has
// been given back.
func resident() int64 {
	debug.FreeOSMemory()
	var pages, in int64
	b, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(b), &pages, &in)
	}
	if err != nil { // not Linux: what the heap has
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	return in * int64(os.Getpagesize())
}

// collection is the least processor time that a forced one takes, of three.
func collection() time.Duration {
	least := time.Hour
	for range 3 {
		before := gcTime()
		runtime.GC()
		least = min(least, gcTime()-before)
	}
	return least
}

func gcTime() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration(s[0].Value.Float64() * float64(time.Second))
}

// memory returns the table of the cells with the most keys.
func (r results) memory() string {
	var b strings.Builder
	var columns []cell
	b.WriteString("| 10,000,000 keys")
	for _, c := range mostCells() {
		if _, ok := r[c]; ok {
			columns = append(columns, c)
			fmt.Fprintf(&b, " | %[1]s: 1 | 2 | %[1]s: bytes a key | a collection, ms", c.debt)
		}
	}
	if len(columns) == 0 {
		return ""
	}
	b.WriteString(" | keeps |\n" + strings.Repeat("|---", 2+4*len(columns)) + "|\n")
	for _, p := range limiterPeers {
		fmt.Fprintf(&b, "| %s", p.name)
		for _, c := range columns {
			f, ok := r[c][p.name]
			w := weights[c][p.name]
			switch {
			case !ok:
				b.WriteString(" | – | – | – | –")
			case f.isWrong():
				fmt.Fprintf(&b, " | %.0f %% wrong | – | %.0f | %.0f", 100*f.wrong, w.resident, w.gc.Seconds()*1000)
			default:
				fmt.Fprintf(&b, " | %.0f | %.0f | %.0f | %.0f", f.ns[0], f.ns[1], w.resident, w.gc.Seconds()*1000)
			}
		}
		fmt.Fprintf(&b, " | %s |\n", p.keeps)
	}
	return b.String()
}
