package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var peersFile = flag.String("peers", "", "measure all limiters, and write the tables into this `file` between its markers; - prints them")

const (
	manyKeys = 1_000_000
	samples  = 10
	sample   = 20 * time.Millisecond
)

// keyNames are as if each had just been read from a request: they lie in memory
// in the order in which they are asked for.
var keyNames = sync.OnceValue(func() []string {
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%011d", i*2_654_435_761%99_999_999_977)
	}
	return keys
})

// TestLimiterPeers: what is measured allows all, or one event a key, and tells
// keys apart (but for the one that has none).
func TestLimiterPeers(t *testing.T) {
	for _, p := range limiterPeers {
		for _, keys := range []int{1, 100} {
			open := p.make(false, keys)
			for i := range 1000 {
				if !open(keyNames()[i%keys]) {
					t.Errorf("%s, %d keys, open: event %d is refused", p.name, keys, i)
				}
			}
			if p.never || p.name == rateName {
				continue
			}
			closed, allowed := p.make(true, keys), 0
			for i := range 1000 {
				if closed(keyNames()[i%keys]) {
					allowed++
				}
			}
			if allowed != keys {
				t.Errorf("%s, %d keys, closed: %d events are allowed, want one a key", p.name, keys, allowed)
			}
		}
	}
}

// A figure is what was measured of one peer: ns for each decision by keys,
// whether they are refused, and whether on all processors; and of a million
// keys the memory of each, and the processor time of a collection.
type figures struct {
	ns    map[string]float64
	bytes float64
	gc    time.Duration
}

func caseName(keys int, deny, all bool) string { return fmt.Sprint(keys, deny, all) }

// TestPeersTable measures if -peers is given; without, it measures one peer
// for a moment, so that it goes on working.
func TestPeersTable(t *testing.T) {
	if *peersFile == "" {
		if f := measure(t, limiterPeers[0], []int{1}, 1); f.ns[caseName(1, true, false)] <= 0 {
			t.Errorf("measured %+v", f)
		}
		return
	}
	all := map[string]figures{}
	for _, p := range limiterPeers {
		keys := []int{1, 1000, manyKeys}
		if p.name == rateName {
			keys = keys[:1]
		}
		all[p.name] = measure(t, p, keys, samples)
		fmt.Fprintln(os.Stderr, "measured", p.name)
	}
	text := tables(all)
	if *peersFile == "-" {
		fmt.Println(text)
		return
	}
	if err := between(*peersFile, text); err != nil {
		t.Error(err)
	}
}

func measure(t *testing.T, p limiterPeer, keys []int, samples int) figures {
	f := figures{ns: map[string]float64{}}
	for _, n := range keys {
		for _, deny := range []bool{false, true} {
			if deny && p.never {
				continue
			}
			empty, idle := heap(), collection(n)
			ask := p.make(deny, n)
			for _, key := range keyNames()[:n] {
				ask(key)
			}
			if n == manyKeys && !deny {
				f.bytes = float64(heap()-empty) / manyKeys
				f.gc = collection(n) - idle
			}
			for _, all := range []bool{false, true} {
				f.ns[caseName(n, deny, all)] = median(samples, func() float64 { return nsEach(t, p, ask, n, deny, all) })
			}
			runtime.KeepAlive(ask)
		}
	}
	return f
}

func median(n int, f func() float64) float64 {
	var all []float64
	for range n {
		all = append(all, f())
	}
	slices.Sort(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// nsEach asks for the length of a sample. The next sample goes on with the keys
// where this one ended.
func nsEach(t *testing.T, p limiterPeer, ask allow, keys int, deny, all bool) float64 {
	workers := 1
	if all {
		workers = runtime.GOMAXPROCS(0)
	}
	var asked, wrong atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for w := range workers {
		wait.Go(func() {
			at, n, bad := (int(cursor.Add(1))*77_777+w*keys/workers)%keys, int64(0), int64(0)
			for time.Since(began) < sample {
				for range 500 {
					if ask(keyNames()[at]) == deny {
						bad++
					}
					if at++; at == keys {
						at = 0
					}
				}
				n += 500
			}
			asked.Add(n)
			wrong.Add(bad)
		})
	}
	wait.Wait()
	took := time.Since(began)
	most := asked.Load() / 20 // some of the others lose a few where callers collide
	if strings.HasPrefix(p.name, "throttle.") {
		most = asked.Load() / 1000
	}
	if p.name != rateName && wrong.Load() > most {
		t.Errorf("%s, %d keys, deny %v: %d of %d answers are wrong", p.name, keys, deny, wrong.Load(), asked.Load())
	}
	return float64(took) / float64(asked.Load())
}

var cursor atomic.Int64

// heap is how much is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collection is the least processor time that a forced one takes, of five; not
// measured but for many keys.
func collection(keys int) time.Duration {
	if keys < manyKeys {
		return 0
	}
	least := time.Hour
	for range 5 {
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

// between puts text into a file, between the lines of the markers.
func between(file, text string) error {
	const from, to = "<!-- peers -->\n", "<!-- end of peers -->\n"
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(old, []byte(from))
	_, tail, ok2 := bytes.Cut(rest, []byte(to))
	if !ok || !ok2 {
		return fmt.Errorf("%s: no lines %q and %q", file, strings.TrimSpace(from), strings.TrimSpace(to))
	}
	return os.WriteFile(file, []byte(string(head)+from+text+to+string(tail)), 0o644)
}
