package outcome

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

const set = `{"deny": ["203.0.113.0/24"], "allow": ["198.51.100.1"], "rules": [
	{"name": "all", "limits": "300/s"},
	{"name": "per-address", "key": "address", "limits": ["20/s burst 40", "600/min fixed-window"],
		"overrides": [{"key": "192.0.2.1", "limits": "unlimited"}]},
	{"name": "login", "match": {"paths": "/login", "methods": "POST"}, "key": "address", "limits": "5/min sliding-log"},
	{"name": "search", "match": {"paths": "/search/**"}, "key": "client+address", "missing": "refuse", "cost": "size", "limits": "100/10s sliding-window"},
	{"name": "tried", "key": "address", "limits": "10/s", "shadow": true},
	{"name": "beside", "key": "path:1", "limits": "1000/min", "shadow": {"limits": "500/min sliding-slots"}}
]}`

func compiled(t *testing.T, text string) *rules.Compiled {
	t.Helper()
	c, err := rules.Parse([]byte(text), "size")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// traffic returns n requests by seed, without their times.
func traffic(seed uint64, n int) (all []rules.Request) {
	random := rand.New(rand.NewPCG(seed, 1))
	addresses := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.1", "203.0.113.9", "2001:db8::1", "2001:db8::2"}
	for range n {
		size := random.Int64N(4)
		all = append(all, rules.Request{
			Method: []string{"GET", "POST"}[random.IntN(2)], Host: "example.com",
			Path:    []string{"/", "/login", "/search/x", "/a/b"}[random.IntN(4)],
			Address: netip.MustParseAddr(addresses[random.IntN(len(addresses))]),
			Client:  []string{"", "alice", "bob"}[random.IntN(3)],
			Cost:    func(string) int64 { return size },
		})
	}
	return all
}

// decided is what of an Answer must be equal.
func decided(a *rules.Answer) string {
	return fmt.Sprint(a.OK, a.Reason, a.Rule, a.Common, a.Entry, a.Limit, a.Decision.N, a.Decision.Remaining,
		a.Decision.RetryAfter, a.Decision.ResetAfter, a.Shadow, a.KeyID(), a.Version)
}

// Each decision of a Replay is that of the rules over a memory.Store live.
func TestReplayDecidesAsLive(t *testing.T) {
	c := compiled(t, set)
	requests := traffic(7, 8_000)
	live := make([]string, len(requests))
	bubble.Test(t, func(t *testing.T) {
		var s memory.Store
		random := rand.New(rand.NewPCG(3, 4))
		for i := range requests {
			time.Sleep(time.Duration(random.IntN(12)) * time.Millisecond)
			requests[i].Now = time.Now().Round(0)
			a, err := c.Decide(t.Context(), &s, requests[i])
			if err != nil {
				t.Fatal(err)
			}
			live[i] = decided(&a)
		}
	})
	p := New(Options{}, c)
	var answers []rules.Answer
	for i, r := range requests {
		var err error
		if answers, err = p.Add(t.Context(), r, answers); err != nil {
			t.Fatal(err)
		}
		if got := decided(&answers[0]); got != live[i] {
			t.Fatalf("request %d at %v: replayed %s\nlive %s", i, r.Now, got, live[i])
		}
	}
	reasons := p.Result().Sides[0].Reasons
	for _, want := range []string{"within", "allowed", "denied", "no-key", "over"} {
		if reasons[want] < 100 {
			t.Errorf("reasons %v: few %s", reasons, want)
		}
	}
}

// What a Replay counts is what its answers say.
func TestResultCounts(t *testing.T) {
	c := compiled(t, set)
	p := New(Options{Top: 1000, Name: func(values string) string { return values }}, c)
	refused, shadowed, keys := int64(0), map[string]int64{}, map[string]int64{}
	at := time.Unix(1_700_000_000, 0)
	var answers []rules.Answer
	for _, r := range traffic(9, 5000) {
		at = at.Add(5 * time.Millisecond)
		r.Now = at
		answers, _ = p.Add(t.Context(), r, answers)
		a := &answers[0]
		for _, name := range a.Shadow {
			shadowed[name]++
		}
		if !a.OK {
			refused++
			keys[a.Rule+a.Entry]++
		}
	}
	result := p.Result()
	one := result.Sides[0]
	if result.Requests != 5000 || one.Refused != refused || refused == 0 {
		t.Errorf("%d requests, %d refused; want 5000, %d", result.Requests, one.Refused, refused)
	}
	named, binned := map[string]int64{}, int64(0)
	for _, k := range one.Keys {
		name := k.Rule
		if name == "deny 203.0.113.0/24" {
			name = "203.0.113.0/24"
		}
		named[name] += k.Refused
	}
	if !maps.Equal(named, keys) {
		t.Errorf("refused by rule %v, want %v", named, keys)
	}
	for _, b := range one.Bins {
		binned += b.Refused
	}
	if binned != refused {
		t.Errorf("%d refused in bins, want %d", binned, refused)
	}
	for _, r := range one.Rules {
		if r.Shadowed != shadowed[r.Name] {
			t.Errorf("rule %s shadowed %d, want %d", r.Name, r.Shadowed, shadowed[r.Name])
		}
	}
	if shadowed["tried"] == 0 || shadowed["beside"] == 0 {
		t.Errorf("shadow rules %v compare little", shadowed)
	}
	if per := one.Rules[1]; per.Name != "per-address" || per.Keys != 3 || per.Asked == 0 { // both of IPv6 are one, one is unlimited
		t.Errorf("rule %+v, want 3 keys", per)
	}
}

func TestCompare(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	requests := func(yield func(rules.Request) bool) {
		for i := range 100 {
			r := rules.Request{Now: at.Add(time.Duration(i) * 10 * time.Millisecond), Path: "/", Address: netip.MustParseAddr("192.0.2." + strconv.Itoa(i%2))}
			if !yield(r) {
				return
			}
		}
	}
	before := compiled(t, `{"rules": [{"name": "a", "key": "address", "limits": "40/min fixed-window"}]}`)
	after := compiled(t, `{"rules": [{"name": "a", "key": "address", "limits": "30/min fixed-window", "overrides": [{"key": "192.0.2.1", "limits": "unlimited"}]}]}`)
	result, err := Compare(t.Context(), before, after, requests, Options{Name: func(values string) string { return values }})
	if err != nil {
		t.Fatal(err)
	}
	one := result.Sides[1]
	if got, want := fmt.Sprint(result.Sides[0].Refused, one.Refused, one.NewlyRefused, one.NewlyAdmitted), "20 20 10 10"; got != want {
		t.Errorf("refused before and after, newly refused and admitted: %s, want %s", got, want)
	}
	if k := one.NewKeys; len(k) != 1 || k[0].Name != "address=192.0.2.0" || k[0].Refused != 10 || k[0].Rule != "a" {
		t.Errorf("newly refused %+v, want 192.0.2.0 10 times", k)
	}
	if _, err := Compare(t.Context(), before, after, func(yield func(rules.Request) bool) { yield(rules.Request{}) }, Options{}); err == nil {
		t.Error("a request without a time was decided")
	}
}

// A request that is late is decided at the time of the one before.
func TestLate(t *testing.T) {
	c := compiled(t, `{"rules": [{"name": "a", "limits": "1/s"}]}`)
	p := New(Options{}, c)
	at := time.Unix(1_700_000_000, 0)
	for i, test := range []struct {
		at time.Time
		ok bool
	}{{at, true}, {at.Add(2 * time.Second), true}, {at, false}, {at.Add(time.Second), false}, {at.Add(3 * time.Second), true}} {
		answers, err := p.Add(t.Context(), rules.Request{Now: test.at, Path: "/"}, nil)
		if err != nil || answers[0].OK != test.ok {
			t.Errorf("%d: %v, %v; want %v", i, answers[0].OK, err, test.ok)
		}
	}
	if r := p.Result(); r.Late != 2 || !r.To.Equal(at.Add(3*time.Second)) {
		t.Errorf("%d late, to %v", r.Late, r.To)
	}
}

func TestTop(t *testing.T) {
	few, many := top{room: 4}, top{room: 1000}
	want := map[string]int64{}
	random := rand.New(rand.NewPCG(1, 1))
	for range 5_000 {
		key := strconv.Itoa(int(random.ExpFloat64() * 1.5))
		few.add("r", key, time.Time{})
		many.add("r", key, time.Time{})
		want["r\x00"+key]++
	}
	all := many.most(1000)
	for i, c := range all {
		if c.n != want[c.key] || c.extra != 0 {
			t.Errorf("key %s counted %d, want %d", c.key, c.n, want[c.key])
		}
		if i > 0 && c.n > all[i-1].n {
			t.Errorf("key %s comes too late", c.key)
		}
	}
	if len(few.heap) != 4 || len(few.index) != 4 {
		t.Errorf("%d and %d keys with room for 4", len(few.heap), len(few.index))
	}
	for _, c := range few.most(4) {
		if c.n < want[c.key] || c.n-c.extra > want[c.key] {
			t.Errorf("key %s counted %d of which %d extra, is %d", c.key, c.n, c.extra, want[c.key])
		}
	}
	if first := few.most(1)[0].key; first != "r\x000" {
		t.Errorf("first %s, want 0", first)
	}
}

func TestDistinct(t *testing.T) {
	for _, want := range []int{0, 1, 10, 512, 513, 1000, 50_000} {
		var d distinct
		for i := range want {
			d.add(Hash("address=192.0.2." + strconv.Itoa(i)))
			d.add(Hash("address=192.0.2." + strconv.Itoa(i/2)))
		}
		if got := d.count(); want <= mostExact && got != int64(want) || got < int64(float64(want)*0.97) || got > int64(float64(want)*1.03) {
			t.Errorf("%d keys counted as %d", want, got)
		}
	}
}

func TestBins(t *testing.T) {
	for _, gap := range []time.Duration{300 * time.Millisecond, 7 * time.Second, 3 * time.Hour, 100 * time.Hour} {
		var b bins
		at := time.Unix(1_700_000_001, 5)
		n := 3500
		for i := range n {
			b.at(at.Add(time.Duration(i)*gap)).Requests++
		}
		sum := int64(0)
		for i, bin := range b.all {
			sum += bin.Requests
			from, to := b.start.Add(time.Duration(i)*b.width), b.start.Add(time.Duration(i+1)*b.width)
			want := int64(0)
			for j := range n {
				if x := at.Add(time.Duration(j) * gap); !x.Before(from) && x.Before(to) {
					want++
				}
			}
			if bin.Requests != want {
				t.Fatalf("gap %v: bin %d counts %d, want %d", gap, i, bin.Requests, want)
			}
		}
		if sum != int64(n) || len(b.all) > mostBins || len(b.all) < mostBins/7 && gap > time.Second {
			t.Errorf("gap %v: %d in %d bins, want %d", gap, sum, len(b.all), n)
		}
	}
}

func TestDigest(t *testing.T) {
	if Digest("a") == Digest("b") || len(Digest("a")) != 16 || !slices.Equal([]byte(Digest("a")), []byte(Digest("a"))) {
		t.Errorf("Digest(a) = %s, Digest(b) = %s", Digest("a"), Digest("b"))
	}
}
