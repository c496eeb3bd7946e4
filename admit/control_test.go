package admit_test

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

var hourly = limit.Limit{Count: 1, Period: time.Hour}

// recorder is a Store that records the keys it was asked about.
type recorder struct {
	memory.Store
	keys []string
}

func (r *recorder) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	for _, ask := range a {
		r.keys = append(r.keys, ask.Key)
	}
	return r.Store.Take(ctx, a, d)
}

// TestControlKeys: the Limit is charged to the Key, else the Client, else the
// network of the Address.
func TestControlKeys(t *testing.T) {
	six := netip.MustParseAddr("2001:db8:1:2:3::4")
	for _, c := range []struct {
		name string
		q    admit.Request
		want string
	}{
		{"", admit.Request{}, "default/"},
		{"n", admit.Request{Request: rules.Request{Address: six}}, "n/2001:db8:1:2::/64"},
		{"n", admit.Request{Request: rules.Request{Address: netip.MustParseAddr("::ffff:192.0.2.1")}}, "n/192.0.2.1"},
		{"n", admit.Request{Request: rules.Request{Address: six, Client: "c"}}, "n/c"},
		{"n", admit.Request{Request: rules.Request{Address: six, Client: "c"}, Key: "k"}, "n/k"},
	} {
		var s recorder
		control := admit.Control{Store: &s, Limit: hourly, Name: c.name}
		a, err := control.Begin(t.Context(), c.q)
		if err != nil || !a.OK || len(s.keys) != 1 || s.keys[0] != c.want {
			t.Errorf("%+v: %v, %v, charged to %q; want %q", c.q, a.Verdict, err, s.keys, c.want)
		}
		a.Done()
	}
}

// TestControlPlans: LimitFor returns the limit of a request, which costs what it
// says.
func TestControlPlans(t *testing.T) {
	control := admit.Control{LimitFor: func(q admit.Request) limit.Limit {
		return limit.Limit{Count: int64(len(q.Key)), Period: time.Hour}
	}}
	for _, c := range []struct {
		key  string
		cost int64
		want admit.Verdict
	}{
		{"aaaa", 3, admit.Admitted},
		{"aaaa", 2, admit.Limited},
		{"aaaa", 1, admit.Admitted},
		{"bb", 2, admit.Admitted},
		{"bb", 0, admit.Admitted},
		{"bb", -5, admit.Admitted},
		{"bb", 1, admit.Limited},
		{"ccc", 0, admit.Admitted},
		{"ccc", 4, admit.Limited},
	} {
		q := admit.Request{Key: c.key}
		q.Cost = func(string) int64 { return c.cost }
		a, err := control.Begin(t.Context(), q)
		if err != nil || a.Verdict != c.want || a.OK != (c.want == admit.Admitted) {
			t.Errorf("%s for %d: %v, %v; want %v", c.key, c.cost, a.Verdict, err, c.want)
		}
		if never := c.cost == 4; !a.OK && (a.RetryAfter == limit.Never) != never {
			t.Errorf("%s for %d: come again in %v", c.key, c.cost, a.RetryAfter)
		}
		a.Done()
	}
}

// TestGiveBack: what a request was charged is refunded once, and it no longer
// counts as in flight.
func TestGiveBack(t *testing.T) {
	control := admit.Control{Limit: limit.Limit{Count: 2, Period: time.Hour}, MaxInFlight: 1, InFlight: new(store.InFlight)}
	begin := func() *admit.Admission {
		a, err := control.Begin(t.Context(), admit.Request{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := begin()
	if second := begin(); second.OK || second.Verdict != admit.Limited || second.Reason() != "busy" || second.GiveBack() != nil {
		t.Errorf("%v (%s), want limited, as one is in flight", second.Verdict, second.Reason())
	}
	for range 3 {
		if err := first.GiveBack(); err != nil {
			t.Error(err)
		}
	}
	if n := control.InFlight.Stats().Holds; n != 0 {
		t.Errorf("%d in flight after GiveBack, want none", n)
	}
	for i, want := range []bool{true, true, false} {
		a := begin()
		if a.Done(); a.OK != want {
			t.Errorf("request %d: %v, want %t: one was given back, once", i, a.Verdict, want)
		}
	}
}

// TestControlPhases: what is charged before the authentication is refunded to
// clients that are known behind it.
func TestControlPhases(t *testing.T) {
	var s memory.Store
	before := admit.Control{Store: &s, Name: "address", Limit: hourly, Phase: rules.Before, MaxInFlight: 5, InFlight: new(store.InFlight)}
	after := admit.Control{Store: &s, Name: "client", Limit: limit.Limit{Count: 3, Period: time.Hour}, Phase: rules.After}
	try := func(client string) (at string) {
		a, err := before.Begin(t.Context(), admit.Request{})
		defer a.Done()
		if err != nil || !a.OK {
			return "before"
		}
		b, err := after.Begin(a.Context(t.Context()), admit.Request{Request: rules.Request{Client: client}})
		defer b.Done()
		if held := before.InFlight.Stats().Holds; (held == 0) != (client != "") {
			t.Errorf("%d in flight before the authentication of %q", held, client)
		}
		if err != nil || !b.OK {
			return "after"
		}
		return ""
	}
	for i, c := range []struct{ client, want string }{
		{"a", ""}, {"a", ""}, {"a", ""}, {"a", "after"}, {"b", ""}, {"", ""}, {"", "before"}, {"b", "before"},
	} {
		if got := try(c.client); got != c.want {
			t.Errorf("request %d of %q was refused %q, want %q", i, c.client, got, c.want)
		}
	}
	q := admit.Request{Key: "other", Request: rules.Request{Client: "c"}}
	second := admit.Control{Store: &s, Name: "second", Limit: hourly, Phase: rules.Before}
	a, _ := before.Begin(t.Context(), q)
	if b, err := second.Begin(a.Context(t.Context()), q); err != nil || !a.OK || !b.OK {
		t.Errorf("two before the authentication: %v and %v, %v; want both to admit it", a.OK, b.OK, err)
	}
	if a, _ := before.Begin(t.Context(), q); a.OK {
		t.Error("a second Control before the authentication refunded the first")
	}
}

// TestControlUndecided: where the Store fails, or the caller has gone, requests
// are refused and nothing is held; what a function of the user's panics with
// releases all, too.
func TestControlUndecided(t *testing.T) {
	lost := errors.New("lost")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	broken := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	for _, c := range []struct {
		name   string
		ctx    context.Context
		store  store.Store
		is     error
		reason string
	}{
		{"a Store that fails", t.Context(), broken, lost, "undecided"},
		{"a caller that has gone", gone, nil, context.Canceled, "gone"},
	} {
		var seen admit.Event
		control := admit.Control{Store: c.store, Limit: hourly, MaxInFlight: 1, InFlight: new(store.InFlight), Shed: new(admit.Shedder), OnEvent: func(e admit.Event) { seen = e }}
		a, err := control.Begin(c.ctx, admit.Request{Degrades: true})
		if !errors.Is(err, c.is) || a.OK || a.Verdict != admit.Undecided || seen.Reason() != c.reason || a.Degraded {
			t.Errorf("%s: %v (%s), %v", c.name, a.Verdict, seen.Reason(), err)
		}
		a.Done()
		if control.InFlight.Stats().Holds+control.Shed.Stats().InFlight != 0 {
			t.Errorf("%s: something is held", c.name)
		}
	}
	plain := admit.Control{Limit: hourly}
	_, _ = plain.Begin(gone, admit.Request{})
	if a, err := plain.Begin(t.Context(), admit.Request{}); err != nil || !a.OK {
		t.Errorf("after a caller that has gone: %v, %v; want admitted, as it was not charged", a.Verdict, err)
	}
	control := admit.Control{MaxInFlight: 1, InFlight: new(store.InFlight), Shed: new(admit.Shedder), OnEvent: func(admit.Event) { panic("mine") }}
	func() {
		defer func() { _ = recover() }()
		_, _ = control.Begin(t.Context(), admit.Request{})
		t.Error("OnEvent did not panic")
	}()
	if control.InFlight.Stats().Holds+control.Shed.Stats().InFlight != 0 {
		t.Error("after a panic in OnEvent something is held")
	}
}

// TestControlSheds: what does not fit is refused as overload, by priority, and
// not charged.
func TestControlSheds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var s memory.Store
		two := limit.Limit{Count: 2, Period: time.Hour}
		control := admit.Control{Store: &s, Limit: two, Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: -1}}
		first, err := control.Begin(t.Context(), admit.Request{Key: "k", Priority: load.Critical})
		if err != nil || !first.OK {
			t.Fatalf("%v, %v", first.Verdict, err)
		}
		second, err := control.Begin(t.Context(), admit.Request{Key: "k", Degrades: true})
		if err != nil || second.Verdict != admit.Overloaded || second.Reason() != "shed" || !second.Degraded || second.RetryAfter <= 0 || second.Binding != -1 {
			t.Errorf("%v (%s), %v: %+v", second.Verdict, second.Reason(), err, second.Event)
		}
		second.Done()
		first.Done()
		if used, _ := s.Take(t.Context(), []limit.Ask{{Key: "default/k", Limit: two}}, make([]limit.Decision, 1)); !used {
			t.Error("the request that was shed is charged")
		}
		third, err := control.Begin(t.Context(), admit.Request{Key: "k"})
		if err != nil || !third.OK {
			t.Errorf("%v, %v; want room again", third.Verdict, err)
		}
		third.Forget()
		third.Done()
	})
}

// TestControlShedsByService: a Request may name the Shedder of its service; that
// of another one has room still.
func TestControlShedsByService(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		one, other := &admit.Shedder{MaxInFlight: 1, MaxWait: -1}, &admit.Shedder{MaxInFlight: 1, MaxWait: -1}
		var control admit.Control
		for i, c := range []struct {
			shed *admit.Shedder
			want admit.Verdict
		}{{one, admit.Admitted}, {one, admit.Overloaded}, {other, admit.Admitted}, {nil, admit.Admitted}} {
			a, err := control.Begin(t.Context(), admit.Request{Shed: c.shed})
			if err != nil || a.Verdict != c.want {
				t.Errorf("request %d: %v, %v; want %v", i+1, a.Verdict, err, c.want)
			}
			if !a.OK && a.RetryAfter <= 0 {
				t.Errorf("request %d: come again after %v", i+1, a.RetryAfter)
			}
			t.Cleanup(a.Done)
		}
	})
}

// TestControlNamesWithSlashes: Name and key together are never those of another pair.
func TestControlNamesWithSlashes(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ name, key, want string }{
		{"", "bob", "default/bob"},
		{"api", "admin/bob", "api/admin/bob"},
		{"api%2Fadmin", "bob", "api%2Fadmin/bob"},
		{"api/admin", "bob", "/api%2Fadmin/bob"},
		{"api%2F/admin", "bob", "/api%252F%2Fadmin/bob"},
		{"/", "bob", "/%2F/bob"},
	} {
		s := new(recorder)
		control := admit.Control{Store: s, Name: c.name, Limit: hourly}
		a, err := control.Begin(t.Context(), admit.Request{Key: c.key})
		if err != nil {
			t.Fatal(err)
		}
		a.Done()
		if s.keys[0] != c.want || seen[c.want] != "" {
			t.Errorf("Name %q, Key %q: the key in the Store is %q, want %q, as of no other", c.name, c.key, s.keys[0], c.want)
		}
		seen[c.want] = c.name
	}
}

// TestRateLimitFields: what callers are told names limits, never keys.
func TestRateLimitFields(t *testing.T) {
	c, err := rules.Parse([]byte(`{"rules": [
		{"name": "each", "key": "client", "limits": ["2/h", "1/min"]},
		{"name": "all", "limits": "100/s burst 200"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	control := admit.Control{Rules: new(rules.Live)}
	if policy, current := mustBegin(t, &control).RateLimit(); policy != "" || current != "" {
		t.Errorf("no rules: %q, %q; want nothing", policy, current)
	}
	control.Rules.Swap(c)
	a := mustBegin(t, &control)
	policy, current := a.RateLimit()
	wantPolicy := `"each/1";q=1;w=60, "each";q=2;w=3600, "all";q=100;w=1;throttle-burst=200`
	wantCurrent := `"each/1";r=0;t=60, "each";r=1;t=1800, "all";r=199;t=1`
	if policy != wantPolicy || current != wantCurrent || strings.Contains(policy+current, "secret") {
		t.Errorf("got  %s | %s\nwant %s | %s", policy, current, wantPolicy, wantCurrent)
	}
	if a.Share() != 0 {
		t.Errorf("a share of %v is told to a caller without a name", a.Share())
	}
	b, err := control.Begin(t.Context(), admit.Request{Request: rules.Request{Client: "other"}, Caller: "p"})
	if err != nil || math.Abs(b.Share()*60-1) > 0.01 {
		t.Errorf("share %v, %v; want one a minute", b.Share(), err)
	}
}

// TestRateLimitPolicyStatesTheBurst: a policy is of whole seconds; where the Period
// is not, it says how many pass at once.
func TestRateLimitPolicyStatesTheBurst(t *testing.T) {
	for _, c := range []struct {
		limit limit.Limit
		want  string
	}{
		{limit.Limit{Count: 10, Period: 100 * time.Millisecond}, `"default";q=100;w=1;throttle-burst=10`},
		{limit.Limit{Count: 10, Burst: 30, Period: 1500 * time.Millisecond}, `"default";q=13;w=2;throttle-burst=30`},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: 100 * time.Millisecond}, `"default";q=100;w=1;throttle-burst=10`},
		{limit.Limit{Count: 10, Period: time.Second}, `"default";q=10;w=1`},
		{limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Minute}, `"default";q=10;w=60`},
	} {
		if policy, _ := mustBegin(t, &admit.Control{Limit: c.limit}).RateLimit(); policy != c.want {
			t.Errorf("%v: the policy is %s, want %s", c.limit, policy, c.want)
		}
	}
}

func mustBegin(t *testing.T, c *admit.Control) *admit.Admission {
	t.Helper()
	a, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Client: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Done)
	return a
}

// The error of a refund is returned, and is in the Event of the Control behind.
func TestRefundFails(t *testing.T) {
	lost := errors.New("lost")
	gives := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		d[0] = limit.Decision{OK: true, N: a[0].N}
		if a[0].N < 0 {
			return false, lost
		}
		return true, nil
	})
	before, after := &admit.Control{Store: gives, Limit: hourly, Phase: rules.Before}, new(admit.Control)
	charged := func() context.Context {
		a, err := before.Begin(t.Context(), admit.Request{Key: "k"})
		if a.Done(); err != nil || !a.OK {
			t.Errorf("Begin = %t, %v", a.OK, err)
		}
		return a.Context(t.Context())
	}
	ctx := charged()
	if err := admit.Refund(ctx); !errors.Is(err, lost) {
		t.Errorf("Refund = %v, want %v", err, lost)
	}
	if err := admit.Refund(ctx); err != nil {
		t.Errorf("a second Refund = %v, want nothing done", err)
	}
	a, err := after.Begin(charged(), admit.Request{Request: rules.Request{Client: "c"}})
	if a.Done(); err != nil || !a.OK || !errors.Is(a.RefundErr, lost) {
		t.Errorf("Begin behind it = %t, %v, RefundErr %v; want true, and %v", a.OK, err, a.RefundErr, lost)
	}
}
