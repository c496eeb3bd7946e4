package sketch_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
)

const pane = 7

// A day is a stream of decisions about keys by number.
type day struct {
	name  string
	flood float64 // the share of made-up keys, each seen once
	draw  func(r *rand.Rand) func() int
}

const keys = 1_000_000

// days are what the sketch is tried on.
var days = []day{
	{"zipf", 0, func(r *rand.Rand) func() int {
		z := rand.NewZipf(r, 1.1, 1, keys-1)
		return func() int { return int(z.Uint64()) }
	}},
	{"200 keys of 0.25 % each", 0, level},
	{"the same in a flood of made-up keys", 0.4, level},
	{"all equal", 0, func(r *rand.Rand) func() int { return func() int { return r.IntN(keys) } }},
	{"one of a half", 0, func(r *rand.Rand) func() int { return func() int { return r.IntN(2) * r.IntN(keys) } }},
}

func level(r *rand.Rand) func() int {
	return func() int {
		if r.Float64() < 0.5 {
			return r.IntN(200)
		}
		return 200 + r.IntN(keys-200)
	}
}

func text(key int) string { return "per-client/0/client=c" + strconv.Itoa(key) }

func id(key int) string {
	sum := sha256.Sum256([]byte(text(key)))
	return hex.EncodeToString(sum[:8])
}

// hash is a keyed hash of a key: SplitMix64.
func hash(seed uint64, key int) uint64 {
	x := seed + uint64(key+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// play counts decisions, each or with the sampling that the sketch asks for, and returns
// the true counts by key: beyond keys, those of the flood.
func (d day) play(s *sketch.Sketch, seed uint64, steps int, by sketch.By, each bool) (truth []int) {
	r := rand.New(rand.NewPCG(seed, 1))
	draw := d.draw(r)
	truth = make([]int, keys, keys+steps)
	for range steps {
		key := len(truth)
		if r.Float64() < d.flood {
			truth = append(truth, 1)
		} else {
			key = draw()
			truth[key]++
		}
		every := uint32(1)
		if !each {
			every = s.Every(pane, by)
		}
		if every == 1 || r.Uint32N(every) == 0 {
			s.Add(pane, by, hash(seed, key), every, text(key))
		}
	}
	return truth
}

// TestAcceptance: every key above 0.1 % is found, and what is said of each key is
// true, whatever the others do. With THROTTLE_SOAK=1, of 10^7 decisions.
func TestAcceptance(t *testing.T) {
	steps, seeds := 1_000_000/few, 1
	if os.Getenv("THROTTLE_SOAK") != "" {
		steps, seeds = 10_000_000, 2
	}
	for by, each := range []bool{sketch.All: true, sketch.Refused: false} {
		for _, d := range days {
			t.Run(d.name+[]string{", each", ", sampled"}[by], func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					s := sketch.Sketch{}
					truth := d.play(&s, uint64(seed), steps, sketch.By(by), each)
					accept(t, s.Top(pane, sketch.By(by), "", 1000), truth, steps)
				}
			})
		}
	}
}

// accept checks what was found.
func accept(t *testing.T, top sketch.Top, truth []int, steps int) {
	t.Helper()
	found := map[string]sketch.Key{}
	for _, k := range top.Keys {
		found[k.ID] = k
		digits, shown := strings.CutPrefix(k.Text, "per-client/0/client=c")
		if n, _ := strconv.Atoi(digits); shown {
			check(t, k, truth[n])
		}
	}
	heavy, widest := 0, uint64(0)
	for key, n := range truth {
		if n > steps/1000 {
			heavy++
			k, ok := found[id(key)]
			if !ok {
				t.Errorf("key %d has %d of %d decisions, and is not found", key, n, steps)
				continue
			}
			check(t, k, n)
			widest = max(widest, k.AtMost-k.Count)
		} else if uint64(n) > top.Missed {
			if _, ok := found[id(key)]; !ok {
				t.Errorf("key %d has %d decisions, above Missed %d, and is not listed", key, n, top.Missed)
			}
		}
	}
	t.Logf("%d heavy keys, found with an error of at most %.4f %%; Missed %.4f %%, sampled 1 in %d", heavy, 100*float64(widest)/float64(steps), 100*float64(top.Missed)/float64(steps), top.Sampled)
	if top.Sampled == 1 && (top.Total != uint64(steps) || top.Missed > uint64(steps)/2000) {
		t.Errorf("Total %d, Missed %d of %d decisions, want all, and at most 0.05 %%", top.Total, top.Missed, steps)
	}
}

// check checks the bounds of a key with a true count.
func check(t *testing.T, k sketch.Key, n int) {
	t.Helper()
	if uint64(n) < k.AtLeast || uint64(n) > k.AtMost {
		t.Errorf("key %s has %d decisions, outside %d to %d", k.ID, n, k.AtLeast, k.AtMost)
	}
}

// TestPanes: counts end with their panes, and late ones do not bring old panes back.
func TestPanes(t *testing.T) {
	var s sketch.Sketch
	add := func(at int64, key int, n uint32) { s.Add(at, sketch.All, hash(1, key), n, text(key)) }
	counts := func(at int64) string {
		line := ""
		for _, k := range s.Top(at, sketch.All, "", 9).Keys {
			line += " " + strconv.FormatUint(k.Count, 10)
		}
		return line
	}
	add(10, 1, 100)
	add(10, 2, 20)
	add(11, 1, 1)
	for _, c := range []struct {
		at   int64
		want string
	}{{10, " 100 20"}, {11, " 101 20"}, {12, " 1"}, {13, ""}} {
		if got := counts(c.at); got != c.want {
			t.Errorf("at %d: counts%s, want%s", c.at, got, c.want)
		}
	}
	add(12, 1, 7)
	add(10, 1, 50) // late: counts in 12
	if got := counts(12); got != " 58" {
		t.Errorf("after a late one: counts%s, want 58", got)
	}
}

// TestEvery: decisions are counted one by one until a pane has many, also if all are of
// one key, and again in the next pane. Each measure has as many.
func TestEvery(t *testing.T) {
	for _, n := range []int{1, 1000} {
		var s sketch.Sketch
		add := func(by sketch.By) {
			for i := range 250_000 {
				s.Add(pane, by, hash(1, i%n), 1, "k/0")
			}
		}
		for _, c := range []struct {
			add          sketch.By
			all, refused uint32
		}{
			{sketch.All, 1, 1},
			{sketch.All, sketch.Sampled, 1},
			{sketch.All, sketch.Sparsely, 1},
			{sketch.Refused, sketch.Sparsely, 1},
			{sketch.Refused, sketch.Sparsely, sketch.Sampled},
		} {
			add(c.add)
			if all, refused := s.Every(pane, sketch.All), s.Every(pane, sketch.Refused); all != c.all || refused != c.refused {
				t.Errorf("%d keys: every %d of all and %d of the refused, want %d and %d", n, all, refused, c.all, c.refused)
			}
		}
		for _, other := range []int64{pane - 1, pane + 1} {
			if every := s.Every(other, sketch.All); every != 1 {
				t.Errorf("%d keys: every %d in pane %d, want 1", n, every, other)
			}
		}
	}
}

// TestPanesMerge: what a key may have had in a pane in which its counter was taken
// is in its bounds.
func TestPanesMerge(t *testing.T) {
	var s sketch.Sketch
	truth := map[string]int{}
	add := func(at int64, key int) {
		s.Add(at, sketch.Refused, uint64(key+1), 1, text(key)) // all in one set
		truth[id(key)]++
	}
	for key := range 3 * sketch.Ways {
		add(10, key)
	}
	for key := range 3 {
		add(11, key)
	}
	top := s.Top(11, sketch.Refused, "", 99)
	for _, k := range top.Keys {
		check(t, k, truth[k.ID])
	}
	if k := top.Keys[0]; len(top.Keys) != sketch.Ways+3 || k.AtMost != 4 || top.Missed != 3 {
		t.Errorf("Top: %d keys, the first %+v, Missed %d, want 19, at most 4, 3", len(top.Keys), k, top.Missed)
	}
}

func TestRules(t *testing.T) {
	var s sketch.Sketch
	for i, key := range []string{"a/0/client=x", "b/0/client=x", "b/0/client=y", "c/0"} {
		for range i + 1 {
			s.Add(pane, sketch.Near, hash(1, i), 1, key)
		}
	}
	top := s.Top(pane, sketch.Near, "b", 1)
	if len(top.Keys) != 1 || top.Keys[0].Rule != "b" || top.Keys[0].Count != 3 || top.Missed != 2 || top.Total != 10 || top.Keys[0].Text != "b/0/client=y" {
		t.Errorf("Top of b: %+v, want one key of 3, and at most 2 of others", top)
	}
	if all := s.Top(pane, sketch.All, "", 9); len(all.Keys) != 0 || all.Total != 0 {
		t.Errorf("Top of another measure: %+v, want nothing", all)
	}
}

// TestMerge: two instances that each see a part of the decisions say as much, within
// bounds that hold, as one that sees all.
func TestMerge(t *testing.T) {
	var both []sketch.Top
	sum := make([]int, keys)
	const steps = 200_000 / few
	for seed := range uint64(2) {
		var s sketch.Sketch
		for key, n := range days[seed*3].play(&s, seed, steps, sketch.Refused, true) {
			sum[key] += n
		}
		both = append(both, s.Top(pane, sketch.Refused, "", 1000))
	}
	top := sketch.Merge(both[0], both[1], 1000)
	accept(t, top, sum, 2*steps)
	if n := len(top.Keys); n != 1000 {
		t.Errorf("%d keys after the merge, want 1000", n)
	}
}

// TestMemory: a sketch takes at most 4 MB, all at once, and nothing for each key.
func TestMemory(t *testing.T) {
	var s sketch.Sketch
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Add(pane, sketch.All, 1, 1, text(1))
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4_000_000 || n < 1_000_000 {
		t.Errorf("a sketch takes %d bytes, want 1 to 4 MB", n)
	}
	i, long := 0, text(1)+strings.Repeat("x", 100)
	for _, key := range []string{text(1), long} {
		if n := testing.AllocsPerRun(10_000, func() { i++; s.Add(pane, sketch.Near, hash(1, i), 1, key) }); n != 0 {
			t.Errorf("%v allocations for a key, want none", n)
		}
	}
}

// TestLongKeys: of a long key there is a digest, and the name of its rule.
func TestLongKeys(t *testing.T) {
	var s sketch.Sketch
	long := strings.Repeat("long-rule", 6) + "/0/client=" + strings.Repeat("x", 60)
	s.Add(pane, sketch.All, 1, 1, long)
	sum := sha256.Sum256([]byte(long))
	top := s.Top(pane, sketch.All, strings.Repeat("long-rule", 6), 9)
	if len(top.Keys) != 1 || top.Keys[0].ID != hex.EncodeToString(sum[:8]) || top.Keys[0].Text != "" {
		t.Errorf("Top: %+v, want one key, the digest of %s", top.Keys, long)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct {
		name string
		keys int
	}{{"one key", 1}, {"1000 keys", 1000}, {"a flood", 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			var s sketch.Sketch
			hashes := make([]uint64, c.keys)
			for i := range hashes {
				hashes[i] = hash(1, i)
			}
			i, key := 0, text(123)
			b.ReportAllocs()
			for b.Loop() {
				i++
				s.Add(pane, sketch.Refused, hashes[i%c.keys], 1, key)
			}
		})
	}
}

// TestConcurrently: callers of all kinds at once lose nothing.
func TestConcurrently(t *testing.T) {
	s := sketch.Sketch{}
	var all sync.WaitGroup
	const each = 20_000 / few
	for i := range uint64(4) {
		all.Go(func() {
			for j := range each {
				s.Add(pane, sketch.Refused, hash(1, j%5), 1, text(j%5))
				if j%500 == 0 {
					s.Top(pane, sketch.Refused, "", int(i))
				}
			}
		})
	}
	all.Wait()
	top := s.Top(pane, sketch.Refused, "", 9)
	for _, k := range top.Keys {
		if k.Count != 4*each/5 || k.AtLeast != k.Count || k.AtMost != k.Count {
			t.Errorf("key %s: %+v, want exactly %d", k.Text, k, 4*each/5)
		}
	}
	if len(top.Keys) != 5 || top.Total != 4*each {
		t.Errorf("%d keys, %d in all, want 5, %d", len(top.Keys), top.Total, 4*each)
	}
}

// FuzzSketch: the bounds of each key and of those without a counter hold for any
// sequence of keys and panes.
func FuzzSketch(f *testing.F) {
	f.Add([]byte("abcabcabcaaaaaaaaaaaaaabbbbbbbbbb"), uint64(1))
	f.Add([]byte{0, 0, 0, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 20}, uint64(9))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		var s sketch.Sketch
		truth := map[int]int{}
		for i, b := range stream {
			// All in one set, so that there are fewer counters than keys.
			s.Add(pane+int64(i)/int64(len(stream)/2+1), sketch.Refused, hash(seed, int(b))&^(0xffffffff<<32), 1, text(int(b)))
			truth[int(b)]++
		}
		top := s.Top(pane+1, sketch.Refused, "", 100)
		for _, k := range top.Keys {
			for key, n := range truth {
				if id(key) == k.ID {
					check(t, k, n)
					delete(truth, key)
				}
			}
		}
		for key, n := range truth {
			if uint64(n) > top.Missed {
				t.Errorf("key %d has %d, is not listed, and Missed is %d", key, n, top.Missed)
			}
		}
	})
}
