package throttleredis

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestFingerprints: limits that decide alike have one fingerprint, others not,
// and it can be read again.
func TestFingerprints(t *testing.T) {
	groups := [][]limit.Limit{
		{{Count: 10, Period: time.Second}, {Count: 10, Period: time.Second, Burst: 10}, {Count: 10, Period: time.Second, Burst: -1, Slots: 3}, {Kind: 200, Count: 10, Period: time.Second}},
		{{Count: 10, Period: time.Second, Burst: 20}},
		{{Count: 10, Period: time.Second + 1}, {Count: 10, Period: time.Second + time.Microsecond}},
		{{Kind: limit.FixedWindow, Count: 10, Period: time.Second}, {Kind: limit.FixedWindow, Count: 10, Period: time.Second, Burst: 5}},
		{{Kind: limit.FirstHitWindow, Count: 10, Period: time.Second}},
		{{Kind: limit.SlidingWindow, Count: 10, Period: time.Second}},
		{{Kind: limit.CalendarWindow, Count: 10, Period: time.Hour}, {Kind: limit.CalendarWindow, Count: 10, Period: time.Hour, Zone: time.UTC}},
		{{Kind: limit.CalendarWindow, Count: 10, Period: time.Hour, Zone: zone(t, "Asia/Kathmandu")}},
		{{Kind: limit.CalendarWindow, Count: 10, Period: time.Hour, Zone: time.FixedZone(strings.Repeat("z", 300), 60)}},
		{{Count: maxCount, Period: 70 * 365 * 24 * time.Hour, Burst: maxCount - 1}},
	}
	seen := map[string]int{}
	for i, group := range groups {
		for _, l := range group {
			b := fingerprint(&l)
			if k, ok := seen[b]; ok && k != i {
				t.Errorf("%+v has the fingerprint of %+v", l, groups[k][0])
			}
			seen[b] = i
			got, rest, ok := limitOf(b + "rest")
			if !ok || rest != "rest" {
				t.Errorf("limitOf of %+v: rest %q, %v", l, rest, ok)
			}
			if again := fingerprint(&got); again != b {
				t.Errorf("%+v is read as %+v", l, got)
			}
			if got.Max() != l.Max() {
				t.Errorf("%+v is read as %+v: Most is %d, want %d", l, got, got.Max(), l.Max())
			}
		}
	}
	if n := len(seen); n != len(groups) {
		t.Errorf("%d fingerprints, want %d", n, len(groups))
	}
	for _, bad := range []string{"", "\x00", "\x00\x05abc", "\x09\x01a", "\x00\x01\x80", "\x00\x02\x01\x80"} {
		if l, _, ok := limitOf(bad); ok {
			t.Errorf("limitOf(%q) = %+v, want none", bad, l)
		}
	}
}

// TestEdges: what is sent of the calendar is what package limit makes of it.
func TestEdges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	zones := []*time.Location{nil, zone(t, "America/New_York"), zone(t, "Asia/Kathmandu"), zone(t, "Australia/Lord_Howe")}
	periods := []time.Duration{1, time.Minute, time.Hour, 2 * time.Hour, 24 * time.Hour, limit.Week, limit.Month, 3 * limit.Month, 12 * limit.Month, 365 * 24 * time.Hour}
	for range 5000 {
		l := limit.Limit{Kind: limit.CalendarWindow, Count: 1, Period: periods[rng.IntN(len(periods))], Zone: zones[rng.IntN(len(zones))]}
		now := time.UnixMicro(rng.Int64N(2.1e15)) // until 2036: as far as tables of zones go
		e := edges(&l, now)
		first, begin, ends := e[0], e[1], e[2:]
		if first != now.Add(-early).UnixMicro() || begin > first || first >= ends[0] {
			t.Fatalf("edges of %v at %v: %v, want the first window to hold it", l, now, e)
		}
		for i, at := range append([]int64{first}, ends[:2]...) {
			if want := windowEnd(&l, time.UnixMicro(at)).UnixMicro(); ends[i] != want {
				t.Fatalf("edges of %v at %v: window %d ends at %v, want %v", l, now, i, ends[i], want)
			}
		}
		if want := windowEnd(&l, time.UnixMicro(begin)).UnixMicro(); want != ends[0] {
			t.Fatalf("edges of %v at %v: %v begins a window that ends at %v, want %v", l, now, begin, want, ends[0])
		}
		if before := windowEnd(&l, time.UnixMicro(begin-1)).UnixMicro(); before != begin {
			t.Fatalf("edges of %v at %v: the window before %v ends at %v", l, now, begin, before)
		}
	}
}

// floats are the numbers of an ask.
func floats(ask string) (n []int64) {
	for b := []byte(ask[3 : ask[2]-1]); len(b) > 0; b = b[8:] {
		n = append(n, int64(math.Float64frombits(binary.LittleEndian.Uint64(b))))
	}
	return n
}

// TestNumbersAreExact: whatever is asked, no number is sent that Lua could not
// add up exactly.
func TestNumbersAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	any64 := func() int64 { return int64(rng.Uint64()) >> rng.IntN(64) }
	asked := 0
	for range 100_000 {
		a := limit.Ask{
			N: any64(), Min: any64(), Debt: rng.IntN(3) == 0,
			Limit: limit.Limit{Kind: limit.Kind(rng.IntN(8)), Count: any64(), Burst: any64(), Period: time.Duration(any64()), Slots: int32(any64())},
		}
		if !remembers(&a.Limit) || checkLimit(&a.Limit) != "" {
			continue
		}
		asked++
		for _, n := range floats(encode(&a, "", 1, 0, nil, time.UnixMicro(late))) {
			if n > 1<<53 || n < -1<<53 {
				t.Fatalf("%+v: sends %d", a, n)
			}
		}
	}
	if asked < 1000 {
		t.Errorf("only %d questions were put", asked)
	}
}

// TestCost: n events cost n × Period/Count, as package limit counts.
func TestCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		l := limit.Limit{Count: 1 + rng.Int64N(1<<rng.IntN(50)), Period: time.Duration(1 + rng.Int64N(1<<rng.IntN(60)))}
		n := 1 + rng.Int64N(l.Count)
		if checkLimit(&l) != "" {
			continue
		}
		s, _ := limit.Take(limit.State{}, time.UnixMicro(0), limit.Ask{Limit: l, N: n})
		w := costOf(&l, n)
		up, part := w.us, int64(0)
		if w.rem > 0 {
			up, part = up+1, l.Count-w.rem
		}
		if s.T != up || s.N != part {
			t.Fatalf("%d of %v cost %+v, but the bucket is full at %+v", n, l, w, s)
		}
	}
}
