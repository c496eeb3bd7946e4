package fit

import (
	"math"
	"testing"
)

// narrowed is a kind with this cost, of which each span is a part of its param.
func narrowed(p params, cost, part float64) weighed {
	around := func(x float64) span { return span{x * (1 - part/2), x * (1 + part/2)} }
	w := weighed{found: found{p, cost}, n: around(p.n), rate: around(p.rate), period: around(p.period)}
	if p.kind == SlidingCounter || p.kind == FixedWindow && !p.first {
		w.edge = span{p.edge - part/2*p.period, p.edge + part/2*p.period}
	}
	return w
}

// TestDoubt: a kind that is ahead in a small part of its params is doubted where
// another explains nearly as much in a large one; of a sliding window counter and a
// bucket it is not decided.
func TestDoubt(t *testing.T) {
	bucket := params{kind: TokenBucket, n: 20, rate: 5}
	counter := params{kind: SlidingCounter, n: 20, period: 4}
	window := params{kind: FixedWindow, n: 20, period: 4}
	for _, x := range []struct {
		name         string
		first, other weighed
		doubt, rival bool
	}{
		{"by chance", narrowed(counter, 4, 0.02), narrowed(bucket, 14, 0.2), true, true},
		{"far ahead", narrowed(counter, 4, 0.02), narrowed(bucket, 24, 0.2), false, false},
		{"as narrow", narrowed(counter, 4, 0.2), narrowed(bucket, 14, 0.2), false, false},
		{"near", narrowed(counter, 4, 0.2), narrowed(bucket, 8, 0.2), true, true},
		{"another pair", narrowed(window, 4, 0.02), narrowed(bucket, 14, 0.2), true, false},
	} {
		all := []weighed{x.first, x.other}
		if d, r := doubt(all, odds), rival(all, odds); d != nil != x.doubt || r != nil != x.rival {
			t.Errorf("%s: doubted %t, undecided %t: want %t and %t", x.name, d != nil, r != nil, x.doubt, x.rival)
		}
	}
}

// TestDoubtEnds: for doubt alone a Plan asks on up to a bound.
func TestDoubtEnds(t *testing.T) {
	all := []weighed{narrowed(params{kind: FixedWindow, n: 20, period: 4}, 4, 0.02), narrowed(params{kind: TokenBucket, n: 20, rate: 5}, 14, 0.2)}
	tr := &trace{}
	for n := 1; n <= doubtful; n++ {
		tr.events = append(tr.events, event{n: 3}, event{})
		if got, want := tr.doubted(all), n < doubtful; got != want {
			t.Errorf("after %d refusals: asks on %t, want %t", n, got, want)
		}
	}
	tr.events = tr.events[:2]
	if tr.doubted(all[:1]) {
		t.Error("asks on without another kind")
	}
}

// TestDoubtUpToSure: like for what is near, Fit decides at 99:1, and a Plan asks on up to e^8.
func TestDoubtUpToSure(t *testing.T) {
	all := []weighed{narrowed(params{kind: SlidingCounter, n: 20, period: 4}, 4, 0.02), narrowed(params{kind: TokenBucket, n: 20, rate: 5}, 19.5, 0.2)}
	tr := &trace{events: []event{{n: 3}, {}}}
	if rival(all, odds) != nil || rival(all, sure) == nil || !tr.doubted(all) {
		t.Errorf("undecided %t, at e^8 %t, asks on %t: want false, true and true", rival(all, odds) != nil, rival(all, sure) != nil, tr.doubted(all))
	}
}

// TestNarrow: a span of a tenth is counted as its logarithm, and none as one request
// in the count alone.
func TestNarrow(t *testing.T) {
	w := narrowed(params{kind: TokenBucket, n: 100, rate: 5}, 0, 0.1)
	if got, want := w.narrow(), -2*math.Log(0.1); math.Abs(got-want) > 1e-9 {
		t.Errorf("%.3f, want %.3f", got, want)
	}
	w.n, w.rate = span{100, 100}, span{}
	if got, want := w.narrow(), math.Log(100); math.Abs(got-want) > 1e-9 {
		t.Errorf("%.3f, want %.3f", got, want)
	}
}

// TestUnsure: what answers may cost to be decided on grows with the refusals, and
// twice as fast where other callers explain them about as well.
func TestUnsure(t *testing.T) {
	tr := &trace{}
	for range 8 {
		tr.events = append(tr.events, event{n: 3, told: math.NaN()}, event{told: math.NaN()})
	}
	alone, crowd := &weighed{}, &weighed{crowd: true}
	if tr.unsure(alone) != 20 || tr.unsure(crowd) != 40 || (&trace{}).unsure(alone) != unsure {
		t.Errorf("%v, and %v with other callers; %v without refusals", tr.unsure(alone), tr.unsure(crowd), (&trace{}).unsure(alone))
	}
	tr.events[0].told = 7
	if tr.unsure(crowd) != 42 {
		t.Errorf("where one answer tells what remains: %v, want 42", tr.unsure(crowd))
	}
}

// A limit that is none has nothing to narrow.
func TestNarrowOfNothing(t *testing.T) {
	if got := new(weighed).narrow(); got != 0 {
		t.Errorf("narrow of no limit = %v, want 0", got)
	}
}
