package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

const (
	manyKeys = 1_000_000
	mostKeys = 10_000_000
	draws    = 1 << 20 // of a Zipf distribution, over and over
	exponent = 1.1
)

// A debt says what the keys owe when they are asked for.
type debt string

const (
	owes  debt = "owe"
	fresh debt = "fresh" // nothing: what the last event cost is refilled
	spent debt = "used up"
)

// A cell is a case in which all limiters are measured.
type cell struct {
	keys int
	zipf bool
	debt debt
	long bool
}

func (c cell) String() string {
	how, length := "uniform", "short"
	if c.zipf {
		how = "Zipf"
	}
	if c.keys == 1 {
		how = "–"
	}
	if c.long {
		length = "200 bytes"
	}
	return fmt.Sprintf("%s | %s | %s | %s", grouped(c.keys), how, c.debt, length)
}

// grouped writes n with a comma before each three digits.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// cells returns all but those of mostKeys. One key is drawn in one way only.
func cells() (all []cell) {
	for _, keys := range []int{1, 1000, manyKeys} {
		for _, long := range []bool{false, true} {
			for _, d := range []debt{owes, fresh} {
				all = append(all, cell{keys, false, d, long})
				if keys > 1 {
					all = append(all, cell{keys, true, d, long})
				}
			}
		}
	}
	return all
}

// spentCells are of refusals, for which nothing is promised.
func spentCells() []cell {
	return []cell{{keys: 1, debt: spent}, {keys: 1000, debt: spent}, {keys: manyKeys, debt: spent}}
}

// quota returns what the limiters are made for. Where keys owe, an event is worth
// far more time than passes until the next of that key, and there is a burst for
// all that are asked for, which are more where there are few keys, or few that come often. Where they
// are fresh it is worth less time than passes until then.
func (c cell) quota() quota {
	switch {
	case c.debt == spent:
		return usedUp
	case c.debt == owes && (c.keys == 1 || c.zipf && c.keys == 1000):
		return quota{100, 20 * time.Second, 80_000_000}
	case c.debt == owes && c.zipf:
		return quota{1, 8 * time.Second, 2_000_000}
	case c.debt == owes:
		return quota{1, 20 * time.Second, 800_000}
	case c.keys == 1 || c.zipf: // the first key comes every few events
		return quota{100_000_000, time.Second, 100_000_000}
	case c.keys == 1000:
		return quota{1_000_000, time.Second, 1_000_000}
	}
	return quota{1000, time.Second, 1000}
}

// A text is keys of one length, one behind the other, as they lie in memory when
// each has just been read from a request.
type text struct {
	all   string
	width int
	n     int
}

func (x *text) key(i int) string { return x.all[i*x.width : (i+1)*x.width] }

// keyText returns the keys of the given numbers, or, if nil, all of them in order.
func (c cell) keyText(numbers []int32) *text {
	n := c.keys
	if numbers != nil {
		n = len(numbers)
	}
	var b strings.Builder
	pad := ""
	if c.long {
		pad = strings.Repeat("/a-part-of-a-long-key", 9)[:200-16]
	}
	for i := range n {
		k := i
		if numbers != nil {
			k = int(numbers[i])
		}
		if b.Len() == 0 {
			b.Grow(n * (16 + len(pad)))
		}
		fmt.Fprintf(&b, "user:%s%011d", pad, k*2_654_435_761%99_999_999_977)
	}
	return &text{b.String(), 16 + len(pad), n}
}

// asked returns the keys in the order in which they are asked for: all in turn, or
// drawn. No text of it is one that a limiter keeps.
func (c cell) asked() *text {
	if !c.zipf {
		return c.keyText(nil)
	}
	return c.keyText(zipf(c.keys))
}

// zipf draws numbers below n, k with a probability that is as (k+1)^-exponent.
func zipf(n int) []int32 {
	sums, sum := make([]float64, n), 0.0
	for k := range sums {
		sum += math.Pow(float64(k+1), -exponent)
		sums[k] = sum
	}
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	numbers := make([]int32, draws)
	for i := range numbers {
		at, _ := slices.BinarySearch(sums, rng.Float64()*sum)
		numbers[i] = int32(min(at, n-1))
	}
	return numbers
}

// has reports whether p is measured in c.
func (c cell) has(p *limiterPeer) bool {
	return (p.name != rateName || c.keys == 1) && (!p.never || c.debt != spent)
}

// TestCellsOwe: in each cell the keys owe what its name says, as far as a store of
// ours knows. A processor that is busy with others is slower, so that more are
// fresh. The race detector makes an event ten times as slow, so with it fewer are asked.
func TestCellsOwe(t *testing.T) {
	bubble.Long(t)
	most := 2_000_000
	if raced {
		most /= 10
	}
	for _, c := range append(cells(), spentCells()...) {
		if c.keys == manyKeys && (c.long || raced) { // make bench-peers runs it without
			continue
		}
		m, l, asked := ours(c.keys), c.quota().limit(), c.asked()
		worth := time.Duration(float64(c.quota().per)/float64(c.quota().n)) + time.Microsecond
		kept := c.keyText(nil)
		full := subject{peer: &limiterPeer{name: takeName}, ask: func(key string) bool { return m.Allow(key, l, 1) }}
		full.fill(c, kept)
		fits, n := 0, min(2*asked.n, most)
		for i := range n {
			d, _ := m.TakeOne(t.Context(), askOne(asked.key(i%asked.n), l))
			is := d.OK == (c.debt != spent)
			switch c.debt {
			case owes:
				is = is && d.ResetAfter > worth
			case fresh:
				is = is && d.ResetAfter <= worth
			}
			if is {
				fits++
			}
		}
		if fits < n*95/100 {
			t.Errorf("%v: %d of %d events are so, want nearly all", c, fits, n)
		}
		runtime.KeepAlive(kept)
	}
}
