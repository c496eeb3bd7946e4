package limit

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// wide draws a number of any size, the extremes included.
func wide(r *rand.Rand) int64 {
	switch r.IntN(8) {
	case 0:
		return math.MaxInt64 - r.Int64N(2)
	case 1:
		return r.Int64N(3)
	}
	return r.Int64() >> r.IntN(63)
}

func TestMulDiv(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		a, b, c := wide(r), wide(r), max(wide(r), 1)
		if r.IntN(8) == 0 {
			c = max(a/4, 1) // quotients around the largest that fits
		}
		quo, rem := mulDiv(a, b, c)
		want, rest := new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), new(big.Int)
		if want.QuoRem(want, big.NewInt(c), rest); !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
			rest.SetInt64(0)
		}
		if want.Int64() != quo || rest.Int64() != rem {
			t.Fatalf("mulDiv(%d, %d, %d) = %d, %d; want %v, %v", a, b, c, quo, rem, want, rest)
		}
	}
	if quo, rem := div128(5, 5, 5); quo != math.MaxInt64 || rem != 0 {
		t.Errorf("div128(5 << 64 + 5, 5) = %d, %d; want it to saturate", quo, rem)
	}
}

// Sums and differences of spans are those of fractions.
func TestSpan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		count := max(wide(r), 1)
		draw := func() span { return span{wide(r) & (forever - 1), wide(r) % count} }
		a, b := draw(), draw()
		if r.IntN(4) == 0 {
			b.rem = (count - a.rem) % count // just to the carry
		}
		as, bs := fraction(a, count), fraction(b, count)
		sum, diff := a.plus(b, count), a.minus(b, count)
		want := new(big.Rat).Add(as, bs)
		if most := new(big.Rat).SetInt64(forever); want.Cmp(most) > 0 {
			want = most
		}
		if sum.rem < 0 || sum.rem >= count || sum.us > forever || fraction(sum, count).Cmp(want) != 0 && sum.us < forever {
			t.Fatalf("%v + %v of %d = %v", a, b, count, sum)
		}
		if want.Sub(as, bs); want.Sign() < 0 {
			want.SetInt64(0)
		}
		if diff.rem < 0 || diff.rem >= count || fraction(diff, count).Cmp(want) != 0 {
			t.Fatalf("%v - %v of %d = %v", a, b, count, diff)
		}
		if a.less(b) != (as.Cmp(bs) < 0) {
			t.Fatalf("%v < %v of %d: %v", a, b, count, a.less(b))
		}
	}
}

func TestSpanEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 {
		period, count := max(wide(r), 1), max(wide(r), 1)
		a := span{wide(r) & (forever - 1), wide(r) % count}
		n, rem := a.events(period, count)
		parts := new(big.Int).Mul(big.NewInt(a.us), big.NewInt(count))
		want, rest := parts.Add(parts, big.NewInt(a.rem)), new(big.Int)
		if want.QuoRem(want, big.NewInt(period), rest); !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
			rest.SetInt64(0)
		}
		if want.Int64() != n || rest.Int64() != rem {
			t.Fatalf("%v.events(%d, %d) = %d, %d; want %v, %v", a, period, count, n, rem, want, rest)
		}
	}
}

func fraction(a span, count int64) *big.Rat {
	x := new(big.Rat).SetFrac64(a.rem, count)
	return x.Add(x, new(big.Rat).SetInt64(a.us))
}
