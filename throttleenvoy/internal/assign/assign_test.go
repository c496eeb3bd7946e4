package assign

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

var t0 = time.Unix(1_800_000_000, 0)

// TestBucketOf: the bucket has whole seconds and events, is never above the rate, and
// less than 2 % below it.
func TestBucketOf(t *testing.T) {
	for _, x := range []struct {
		rate        Rate
		burst, most int64
		want        Bucket
	}{
		{100 * PerSecond, 0, 1000, Bucket{Max: 100, Fill: 100, Every: 1}},
		{100 * PerSecond, 400, 1000, Bucket{Max: 400, Fill: 100, Every: 1}},
		{100 * PerSecond, 400, 5, Bucket{Max: 5, Fill: 100, Every: 1}},
		{PerSecond * 5 / 2, 0, 1000, Bucket{Max: 3, Fill: 5, Every: 2}},
		{PerSecond * 19 / 10, 0, 1000, Bucket{Max: 2, Fill: 19, Every: 10}},
		{PerSecond / 60, 0, 1000, Bucket{Max: 1, Fill: 1, Every: 60}},
		{RateOf(1, 31*24*time.Hour), 0, 1000, Bucket{Max: 1, Fill: 1, Every: 2_673_797}},
		{1, 7, 1000, Bucket{Max: 7, Fill: 1, Every: never}},
		{0, 7, 1000, Bucket{Max: 7, Fill: 1, Every: never}},
		{0, 0, 0, Bucket{Max: 1, Fill: 1, Every: never}},
		{MaxRate, math.MaxInt64, math.MaxInt64, Bucket{Max: math.MaxUint32, Fill: 9_000_000, Every: 1}},
	} {
		if got := BucketOf(x.rate, x.burst, x.most); got != x.want {
			t.Errorf("BucketOf(%d, %d, %d) = %+v, want %+v", x.rate, x.burst, x.most, got, x.want)
		}
	}
}

func FuzzBucketOf(f *testing.F) {
	f.Add(int64(1_900_000_000), int64(3), int64(100))
	f.Fuzz(func(t *testing.T, rate, burst, most int64) {
		r := Rate(min(max(rate, 0), int64(MaxRate)))
		b := BucketOf(r, burst, most)
		switch got := b.Rate(); {
		case b.Max < 1 || b.Fill < 1 || b.Every < 1 || b.Every > never:
			t.Errorf("BucketOf(%d, %d, %d) = %+v", r, burst, most, b)
		case float64(b.Fill)/float64(b.Every)*1e9 > float64(r)+1 && b.Every < never:
			t.Errorf("BucketOf(%d, %d, %d) = %+v, above the rate", r, burst, most, b)
		case got > r || b.Every < never && got < r-r/49:
			t.Errorf("BucketOf(%d, %d, %d) = %+v of rate %d", r, burst, most, b, got)
		case most > 0 && int64(b.Max) > most:
			t.Errorf("BucketOf(%d, %d, %d) = %+v, above most", r, burst, most, b)
		}
	})
}

// TestUnlike: Envoy, which does not look at Every, sees each change.
func TestUnlike(t *testing.T) {
	old := Bucket{Max: 5, Fill: 1, Every: 10}
	for _, x := range []struct{ b, want Bucket }{
		{old, old},
		{Bucket{5, 2, 10}, Bucket{5, 2, 10}},
		{Bucket{5, 1, 20}, Bucket{4, 1, 20}},
		{Bucket{6, 1, 20}, Bucket{6, 1, 20}},
	} {
		if got := x.b.Unlike(old); got != x.want {
			t.Errorf("%+v.Unlike(%+v) = %+v, want %+v", x.b, old, got, x.want)
		}
	}
	one := Bucket{Max: 1, Fill: 1, Every: 10}
	if got := (Bucket{Max: 1, Fill: 1, Every: 20}).Unlike(one); got != (Bucket{Max: 2, Fill: 1, Every: 20}) {
		t.Errorf("a bucket of one: %+v", got)
	}
}

// TestSupply: what limits have to divide, by what is left of them.
func TestSupply(t *testing.T) {
	for _, x := range []struct {
		limit string
		d     limit.Decision
		want  Supply
	}{
		{"10/s", limit.Decision{Remaining: 10}, Supply{10 * PerSecond, 5, 10}},                              // 10.25/s
		{"10/s burst 1000", limit.Decision{Remaining: 1000}, Supply{35 * PerSecond, 500, 1000}},             // and 25/s of it
		{"10/s burst 1000", limit.Decision{ResetAfter: 100 * time.Second}, Supply{10 * PerSecond, 0, 1000}}, // nothing left
		{"10/s burst 1000", limit.Decision{ResetAfter: 110 * time.Second}, Supply{5 * PerSecond, 0, 1000}},  // 100 are owed
		{"10/s burst 1000", limit.Decision{ResetAfter: 200 * time.Second}, Supply{0, 0, 1000}},              // 1000 are owed
		{"10/s burst 1", limit.Decision{ResetAfter: 200 * time.Millisecond}, Supply{10 * PerSecond, 0, 1}},  // one is owed
		{"600/m fixed-window", limit.Decision{Remaining: 600}, Supply{15 * PerSecond, 300, 600}},            // 300 in 20 s
		{"600/m fixed-window", limit.Decision{ResetAfter: 59 * time.Second}, Supply{0, 0, 600}},             // nothing left
		{"5000/month calendar-window", limit.Decision{Remaining: 1}, Supply{PerSecond / 40, 1, 5000}},       // the last one
		{"50/10s sliding-log", limit.Decision{Remaining: 0}, Supply{5 * PerSecond, 0, 50}},                  // too short to look at
		{"0/s", limit.Decision{}, Supply{}}, // nothing, ever
		{"100000000/s", limit.Decision{Remaining: 100_000_000}, Supply{MaxRate, 50_000_000, 100_000_000}}, // beyond MaxRate
		{"1/s burst 9000000000000000000", limit.Decision{Remaining: math.MaxInt64}, Supply{MaxRate, math.MaxInt64 - math.MaxInt64/2, limit.Limit{Count: 1, Period: time.Second, Burst: 9e18}.Max()}},
	} {
		l, err := limit.Parse(x.limit, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := SupplyOf(l, x.d); got != x.want {
			t.Errorf("SupplyOf(%s, %+v) = %+v, want %+v", x.limit, x.d, got, x.want)
		}
	}
}

// TestPart: several processes divide a limit by what their proxies demand.
func TestPart(t *testing.T) {
	s := Supply{Rate: 100 * PerSecond, Burst: 50, Most: 100}
	for _, x := range []struct {
		own, others Rate
		want        Rate
		burst       int64
	}{
		{10, 0, 100, 50},
		{10, 30, 40, 20}, // and half of what nobody demands
		{300, 100, 75, 37},
		{80, 40, 66, 33},
		{0, 200, 0, 0},
	} {
		got := s.Part(x.own*PerSecond, x.others*PerSecond)
		if got.Rate/PerSecond != x.want || got.Burst != x.burst {
			t.Errorf("Part(%d/s, %d/s) = %+v, want %d/s", x.own, x.others, got, x.want)
		}
	}
}

// TestDemand: a flood counts as the limit.
func TestDemand(t *testing.T) {
	for _, x := range []struct {
		s       Supply
		n, want int64
	}{
		{Supply{Rate: 10 * PerSecond, Most: 10}, 7, 7},
		{Supply{Rate: 10 * PerSecond, Most: 10}, 700, 50},
		{Supply{Rate: 10 * PerSecond, Most: 100}, 700, 100},
	} {
		if got := x.s.Demand(x.n); got != x.want {
			t.Errorf("%+v.Demand(%d) = %d, want %d", x.s, x.n, got, x.want)
		}
	}
}

// TestClaim: what a proxy may still use counts until it has reported after it was told, or that
// has expired; a report that may be older does not count.
func TestClaim(t *testing.T) {
	const s = time.Second
	for _, x := range []struct {
		name   string
		report []time.Duration
		at     time.Duration
		want   Rate
	}{
		{"at once", nil, 0, 100},
		{"without a report", nil, 15 * s, 100},
		{"when it has expired", nil, 16 * s, 0},
		{"after a report that may be older", []time.Duration{s / 2}, s, 100},
		{"after a report", []time.Duration{s / 2, s}, s, 10},
	} {
		var c Claim
		c.Tell(t0, BucketOf(100*PerSecond, 0, 100))
		c.Tell(t0, BucketOf(20*PerSecond, 0, 100))
		c.Tell(t0, BucketOf(10*PerSecond, 0, 100))
		for _, at := range x.report {
			c.Report(t0.Add(at), 5, 0)
		}
		if got := c.Held(t0.Add(x.at)); got != x.want*PerSecond {
			t.Errorf("%s: it holds %v/s, want %v/s", x.name, float64(got)/1e9, x.want)
		}
	}
}

// TestClaimDemand: requests count by the time between reports; a demand that falls is believed by half.
func TestClaimDemand(t *testing.T) {
	var c Claim
	for _, x := range []struct {
		at       time.Duration
		requests int64
		over     time.Duration
		want     Rate
	}{
		{0, 1, 0, Unknown},
		{500 * time.Millisecond, 4, 0, Unknown},
		{2 * time.Second, 5, 0, 5 * PerSecond}, // with those of a report that was too early
		{7 * time.Second, 50, time.Hour, 10 * PerSecond},
		{12 * time.Second, 10, 0, 6 * PerSecond},
		{17 * time.Second, 0, 0, 3 * PerSecond},
	} {
		c.Report(t0.Add(x.at), x.requests, x.over)
		if got := c.Share(t0.Add(x.at)).Demand; got != x.want {
			t.Errorf("after %v: a demand of %d, want %d", x.at, got, x.want)
		}
	}
	var again Claim
	again.Report(t0, 50, 5*time.Second) // its proxy has counted since before
	if got := again.Share(t0).Demand; got != 10*PerSecond {
		t.Errorf("after 50 requests in 5 s that the proxy states: %d", got)
	}
}

// TestDivide: what each proxy is assigned.
func TestDivide(t *testing.T) {
	has := func(demand, told Rate) Share { return Share{Demand: demand, Told: told, Held: told, Has: true} }
	for _, x := range []struct {
		name   string
		raises bool
		all    []Share
		next   []Rate
	}{
		{"a first proxy leaves a quarter for another", true, []Share{{Demand: Unknown}}, []Rate{75}},
		{"which gets that at once", true, []Share{{Demand: Unknown, Told: 75, Held: 75, Has: true}, {Demand: Unknown}}, []Rate{75, 25}},
		{"a third one lowers them", true, []Share{{Demand: Unknown, Told: 75, Held: 75, Has: true}, {Demand: Unknown, Told: 25, Held: 25, Has: true}, {Demand: Unknown}}, []Rate{31, 25, 0}},
		{"one that uses it up has all", true, []Share{has(150, 50)}, []Rate{100}},
		{"one that does not has half of the rest", true, []Share{has(60, 50)}, []Rate{81}}, // of its demand and a twentieth
		{"one that refuses a little gets what is free", true, []Share{has(200, 85)}, []Rate{100}},
		{"but not if that is next to nothing", true, []Share{has(200, 98)}, []Rate{98}},
		{"nor if it has all that it demands", true, []Share{has(80, 85)}, []Rate{85}},
		{"and what another does not use, of which it waits for the rest", true, []Share{has(40, 46), has(200, 50)}, []Rate{42, 54}},
		{"without raises it keeps what it has", false, []Share{has(150, 50)}, []Rate{50}},
		{"but one that has nothing gets something", false, []Share{{Demand: Unknown}}, []Rate{75}},
		{"max-min: a small demand is met, the rest divided", true, []Share{has(20, 20), has(70, 40), has(90, 40)}, []Rate{20, 40, 40}},
		{"two that want all, one has it: first it is lowered", true, []Share{has(200, 100), {Demand: 200}}, []Rate{50, 0}},
		{"and when it has reported the other is raised", true, []Share{has(200, 50), has(200, 0)}, []Rate{50, 50}},
		{"but not before", true, []Share{{Demand: 200, Told: 50, Held: 100, Has: true}, has(200, 0)}, []Rate{50, 0}},
		{"a lost one keeps what it holds", true, []Share{{Demand: 9, Told: 40, Held: 40, Has: true, Lost: true}, has(200, 30)}, []Rate{40, 60}},
		{"small changes are not made where nothing is free", true, []Share{has(200, 46), has(200, 54)}, []Rate{46, 54}},
		{"but where another needs it", true, []Share{has(200, 50), has(200, 50), {Demand: 200}}, []Rate{33, 33, 0}},
		{"and small ones where that is needed", true, []Share{has(200, 20), has(200, 20), has(200, 20), has(200, 20), has(200, 20), {Demand: 200}}, []Rate{16, 16, 16, 16, 16, 0}},
		{"nor above the supply", true, []Share{has(200, 51), has(200, 52)}, []Rate{50, 50}},
		{"what is free is divided by need", true, []Share{has(200, 20), has(200, 40), {Demand: 0, Told: 20, Held: 20, Has: true, Lost: true}}, []Rate{40, 40, 20}},
	} {
		Divide(100, x.raises, x.all)
		var next []Rate
		for _, s := range x.all {
			next = append(next, s.Next)
		}
		if !slices.Equal(next, x.next) {
			t.Errorf("%s: %d, want %d", x.name, next, x.next)
		}
	}
}
