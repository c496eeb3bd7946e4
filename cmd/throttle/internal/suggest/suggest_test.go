package suggest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

var start = time.Unix(1_700_000_000, 0)

// A request of a key so long after the start.
type request struct {
	key   uint64
	since time.Duration
}

func peaksOf(all []request) *Peaks {
	p := new(Peaks)
	for _, r := range all {
		p.Add(r.key*0x9e3779b97f4a7c15, start.Add(r.since))
	}
	return p
}

// What is counted is never below the most in any window, nor above that of a window
// longer by a part.
func TestPeaksBound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var all []time.Duration
		since := time.Duration(0)
		p := new(Peaks)
		for range 400 {
			since += time.Duration(random.ExpFloat64() * random.Float64() * 8e9)
			if random.IntN(40) == 0 {
				since += time.Duration(random.Int64N(int64(3 * time.Hour)))
			}
			all = append(all, since)
			p.Add(7, start.Add(since))
		}
		for i, period := range Periods {
			within := func(length time.Duration) (most uint32) {
				for from := range all {
					n := uint32(0)
					for to := from; to < len(all) && all[to] < all[from]+length; to++ {
						n++
					}
					most = max(most, n)
				}
				return most
			}
			got, least, most := p.keys[0].most[i], within(period), within(period+period/slots)
			if got < least || got > most {
				t.Fatalf("peak of %v is %d, want %d to %d", period, got, least, most)
			}
		}
	}
}

// A limit as high as the peak of its key refuses nothing.
func TestLimitOfThePeakRefusesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		var all []time.Time
		p := new(Peaks)
		at := start
		for range 500 {
			at = at.Add(time.Duration(random.ExpFloat64() * random.Float64() * 4e9))
			p.Add(7, at)
			all = append(all, at)
		}
		for i, period := range Periods {
			l := limit.Limit{Count: int64(p.keys[0].most[i]), Period: period}
			var s limit.State
			for n, at := range all {
				var d limit.Decision
				if s, d = limit.Take(s, at, limit.Ask{Limit: l, N: 1}); !d.OK {
					t.Fatalf("%v refuses request %d", l, n)
				}
			}
		}
	}
}

// A sample of the keys has the same shares as all.
func TestPeaksSample(t *testing.T) {
	p := &Peaks{most: 1000}
	random := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		hash := random.Uint64()
		for range 1 + 9*(hash>>8&1) { // half of the keys come once, half 10 times
			p.Add(hash, start)
		}
	}
	if n := len(p.keys); n > 1000 || n < 400 || len(p.index) != n {
		t.Fatalf("%d keys of 20,000 with room for 1,000, %d in the index", n, len(p.index))
	}
	few := 0
	for i, k := range p.keys {
		if p.index[k.hash] != uint32(i) {
			t.Fatalf("key %d is not where the index says", i)
		}
		switch k.most[0] {
		case 1:
			few++
		case 10:
		default:
			t.Fatalf("key with %d of 1 or 10 requests", k.most[0])
		}
	}
	if share := float64(few) / float64(len(p.keys)); math.Abs(share-0.5) > 0.08 {
		t.Errorf("%.2f of the sample came once, want 0.5", share)
	}
	if got := p.Propose(Options{Touch: 0.01}).Sampled; got != 32 {
		t.Errorf("one in %d, want 32", got)
	}
}

func TestPropose(t *testing.T) {
	var all []request
	for i := range 20_000 { // each key in an hour of its own: one in 10,000 makes 90 requests at once, the others 3
		n := 3
		if i%10_000 == 7 {
			n = 90
		}
		if i == 5 {
			n = 1000 // a flood
		}
		for range n {
			all = append(all, request{uint64(i) + 1, time.Duration(i) * 4 * time.Second})
		}
	}
	for _, test := range []struct {
		touch float64
		flood limit.Limit
		want  string
	}{
		{touch: 0.001, want: "[3/h] of 19997, 3 flooding, touched 0, promised 0.001"}, // 30 is the flood
		{touch: 0.001, flood: limit.Limit{Count: 100, Period: time.Minute}, want: "[3/h] of 19999, 1 flooding, touched 2, promised 0.001"},
		{touch: 0.0004, flood: limit.Limit{Count: 100, Period: time.Minute}, want: "[90/h] of 19999, 1 flooding, touched 0, promised 0.0004"},
		{touch: 0.0001, flood: limit.Limit{Count: 100, Period: time.Minute}, want: "[180/h] of 19999, 1 flooding, touched 0, promised 0.0003"},
	} {
		p := peaksOf(all).Propose(Options{Touch: test.touch, Flood: test.flood})
		var limits []string
		for _, l := range p.Limits {
			limits = append(limits, l.Text)
		}
		got := fmt.Sprintf("%v of %d, %d flooding, touched %d, promised %.4g", limits, p.Honest, p.Flooding, p.Touched, p.Promised)
		if got != test.want {
			t.Errorf("touch %v, flood %v:\n got %s\nwant %s", test.touch, test.flood, got, test.want)
		}
	}
	if p := peaksOf(all[:10]).Propose(Options{Touch: 0.01}); len(p.Limits) != 0 || p.Promised != 1 {
		t.Errorf("of 12 s: %+v", p)
	}
	if p := new(Peaks).Propose(Options{Touch: 0.01}); len(p.Limits) != 0 || p.Promised != 1 || p.Honest != 0 {
		t.Errorf("of nothing: %+v", p)
	}
}

// No limit is proposed that another one implies, next to it or not.
func TestDescribedImplyNoOther(t *testing.T) {
	for _, test := range []struct {
		limits []uint32
		want   string
	}{
		{[]uint32{3, 10, 50, 200}, "[3/10s 10/min 50/h 200/day]"},
		{[]uint32{3, 3, 10, 10}, "[3/min 10/day]"},
		{[]uint32{10, 60, 3600}, "[10/10s]"},
		{[]uint32{10, 100, 5000}, "[10/10s]"}, // 100/min does not imply 5000/h, but 10/10s does
	} {
		sorted := make([][]uint32, len(test.limits))
		for i, most := range test.limits {
			sorted[i] = []uint32{most}
		}
		var got []string
		for _, l := range described(test.limits, sorted, [periods]uint32{}) {
			got = append(got, l.Text)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%d: got %v, want %s", test.limits, got, test.want)
		}
	}
}

// A day has honest callers of very different rates, some of them in bursts, and a few
// that flood.
func day(seed uint64, keys int) (all []request) {
	random := rand.New(rand.NewPCG(seed, 9))
	for i := range keys {
		visits := 1 + int(math.Exp(0.8*random.NormFloat64()))
		for range visits {
			since := time.Duration(random.Int64N(int64(23 * time.Hour)))
			pages := 1 + int(math.Exp(1+0.9*random.NormFloat64()))
			for range pages {
				since += time.Duration(random.ExpFloat64() * 5e9)
				all = append(all, request{uint64(i) + 1, since})
			}
		}
	}
	for i := range 5 {
		since := time.Duration(random.Int64N(int64(20 * time.Hour)))
		for range 4_000 {
			since += time.Duration(random.ExpFloat64() * 2e8)
			all = append(all, request{uint64(keys+i) + 1, since})
		}
	}
	return all
}

// What is proposed from one day keeps its promise on a second day of the same traffic,
// by the limits themselves.
func TestProposeKeepsItsPromise(t *testing.T) {
	const keys, days = 6_500, 2
	broken := 0
	for seed := range uint64(days) {
		p := peaksOf(sorted(day(2*seed, keys))).Propose(Options{Touch: 0.001})
		if len(p.Limits) == 0 || p.Flooding != 5 || p.Promised != 0.001 {
			t.Fatalf("seed %d: %+v", seed, p)
		}
		limits := map[uint64][]limit.State{}
		refused := map[uint64]bool{}
		for _, r := range sorted(day(2*seed+1, keys)) {
			s := limits[r.key]
			if s == nil {
				s = make([]limit.State, len(p.Limits))
				limits[r.key] = s
			}
			for i, l := range p.Limits {
				var d limit.Decision
				if s[i], d = limit.Take(s[i], start.Add(r.since), limit.Ask{Limit: l.Limit, N: 1}); !d.OK {
					refused[r.key] = true
				}
			}
		}
		honest, flooding := 0, 0
		for key := range refused {
			if key > keys {
				flooding++
			} else {
				honest++
			}
		}
		if float64(honest) > 0.001*keys {
			broken++
		}
		if flooding != 5 {
			t.Errorf("seed %d: %d of 5 that flood were refused", seed, flooding)
		}
		if len(p.Limits) > 0 && p.Limits[0].Limit.Count > 2*p.Limits[0].Most {
			t.Errorf("seed %d: %v is far above what honest keys do: %+v", seed, p.Limits[0].Text, p)
		}
	}
	if broken > 0 {
		t.Errorf("%d of %d days broke the promise", broken, days)
	}
}

// The bounds are those of tables of the Poisson distribution.
func TestHighest(t *testing.T) {
	for k, want := range map[int]float64{0: 2.996, 1: 4.744, 5: 10.513, 10: 16.962, 100: 118.08} {
		if got := highest(k); math.Abs(got-want) > 0.01 {
			t.Errorf("highest(%d) = %.3f, want %.3f", k, got, want)
		}
	}
	if most, enough := mostTouched(1000, 0.001); most != 0 || enough {
		t.Errorf("of 1,000 keys %d, %v", most, enough)
	}
	if most, enough := mostTouched(100_000, 0.001); most < 50 || most > 80 || !enough {
		t.Errorf("of 100,000 keys %d, %v", most, enough)
	}
}

func TestRound(t *testing.T) {
	for n, want := range map[uint32]uint32{0: 0, 1: 1, 99: 99, 100: 100, 101: 110, 1234: 1300, 995: 1000} {
		if got := round(n); got != want {
			t.Errorf("round(%d) = %d, want %d", n, got, want)
		}
	}
}

func sorted(all []request) []request {
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.since, b.since) })
	return all
}
