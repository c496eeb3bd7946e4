package recent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/rules"
)

// now are the rules of a service; %s stands for the limits of its customers.
const now = `{"deny": ["198.51.100.0/28", "client=spam*"], "allow": ["header:X-Plan=gold"], "rules": [
	{"name": "address", "key": "address", "limits": "20/s burst 40"},
	{"name": "client", "key": "client", "limits": [%s], "missing": "pass", "overrides": [
		{"key": ["big-1"], "limits": "6/s"}, {"key": ["team-*"], "limits": "5/s"}]},
	{"name": "tenant", "match": {"paths": "/api/*", "headers": {"X-Tenant": "*"}}, "key": "header:X-Tenant+path:2", "limits": "200/m", "missing": "pass"},
	{"name": "tried", "shadow": true, "limits": "1/s"},
	{"name": "log", "match": {"methods": "POST", "hosts": "*.example"}, "key": "client+address", "limits": "10/s sliding-log"}
]}`

// someone is a request of one of some hundred callers.
func someone(r *rand.Rand) admit.Request {
	field := map[string]string{}
	q := rules.Request{
		Method: []string{"GET", "POST"}[r.IntN(2)], Host: []string{"a.example", "b.test:80"}[r.IntN(2)],
		Path:    fmt.Sprintf("/%s/%d", []string{"api", "web"}[r.IntN(2)], r.IntN(3)),
		Address: netip.AddrFrom4([4]byte{198, 51, 100, byte(r.IntN(64))}), Phase: rules.After,
		Header: func(name string) string { return field[name] },
	}
	switch r.IntN(4) {
	case 0:
		q.Address = netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::%x", r.IntN(9), r.IntN(99)))
	case 1:
		field["X-Tenant"] = fmt.Sprintf("tenant%d", r.IntN(9))
	case 2:
		field["X-Plan"] = []string{"gold", "silver"}[r.IntN(2)]
	}
	switch kind := r.IntN(5); kind {
	case 0:
	default:
		q.Client = fmt.Sprintf("%s-%d", []string{"", "big", "team", "spam", "any"}[kind], r.IntN(3))
	}
	return admit.Request{Request: q}
}

// sent is how many requests a run has, in some 5 seconds.
const sent = 1500

// live decides the requests of a seed in virtual time, and returns what was refused.
func live(t *testing.T, seed uint64, c *admit.Control) (refused int64) {
	r := rand.New(rand.NewPCG(seed, 2))
	for range sent {
		time.Sleep(time.Duration(r.IntN(6500)) * time.Microsecond)
		q := someone(r)
		q.Version = c.Rules.Load()
		a, err := c.Begin(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if !a.OK {
			refused++
		}
		a.Done()
	}
	return refused
}

func parse(t *testing.T, text string) *rules.Compiled {
	t.Helper()
	c, err := rules.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhatIf: rules that did not change would decide as they did, and others as they
// do in a live run of the same requests.
func TestWhatIf(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 10
	}
	old := fmt.Sprintf(now, `"8/s"`)
	for name, other := range map[string]string{
		"another limit":    fmt.Sprintf(now, `"3/s", "30/m"`),
		"an exact raise":   strings.Replace(fmt.Sprintf(now, `"8/s"`), `{"key": ["big-1"]`, `{"key": ["any-2"], "limits": "18/s"}, {"key": ["big-1"]`, 1),
		"a client allowed": strings.Replace(fmt.Sprintf(now, `"8/s"`), `"header:X-Plan=gold"`, `"client=any-1", "header:X-Plan=silver"`, 1),
		"an address":       strings.Replace(fmt.Sprintf(now, `"8/s"`), `"198.51.100.0/28"`, `"198.51.100.33"`, 1),
		"less":             `{"rules": [{"name": "all", "limits": "100/s"}]}`,
		"a path":           `{"rules": [{"name": "path", "key": "path+address", "match": {"paths": "/api/2"}, "limits": "1/s"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			before, after := parse(t, old), parse(t, other)
			for seed := range seeds {
				var w *WhatIf
				var refused, want int64
				bubble.Test(t, func(t *testing.T) {
					var r Decisions
					c := control(t, &r, `{"rules": []}`)
					c.Rules.Swap(before)
					r.Prepare(c.Rules)
					refused = live(t, seed, c)
					var err error
					if w, err = r.WhatIf(t.Context(), time.Now(), before, after, false); err != nil {
						t.Fatal(err)
					}
				})
				bubble.Test(t, func(t *testing.T) {
					c := control(t, nil, `{"rules": []}`)
					c.Rules.Swap(after)
					want = live(t, seed, c)
				})
				if w.Requests != sent || w.Real.Refused != refused || w.Before.Refused != refused || refused < 50 {
					t.Errorf("seed %d: %d of %d requests refused, %d as recorded, %d before, want all the same", seed, refused, w.Requests, w.Real.Refused, w.Before.Refused)
				}
				if w.After.Refused != want || want == refused || len(w.Warnings) > 0 {
					t.Errorf("seed %d: %d would be refused after, want %d as live, and not %d as before; warnings %q", seed, w.After.Refused, want, refused, w.Warnings)
				}
			}
		})
	}
}

// TestWhatIfOrder: requests at once may be kept in any order, and are replayed in that
// of their decisions.
func TestWhatIfOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		before := parse(t, fmt.Sprintf(now, `"8/s"`))
		c := control(t, nil, `{"rules": []}`)
		c.Rules.Swap(before)
		var events []admit.Event
		c.OnEvent = func(e admit.Event) { e.Request.Now = time.Now(); events = append(events, e) }
		refused := live(t, 1, c)
		var r Decisions
		r.once.Do(r.setUp)
		r.Prepare(c.Rules)
		for i := range events {
			e := &events[i/500*500+499-i%500]
			r.record(e, e.Request.Now)
		}
		w, err := r.WhatIf(t.Context(), time.Now(), before, before, false)
		if err != nil || w.Before.Refused != refused || w.Requests != sent {
			t.Errorf("%v: %d of %d requests refused before, want %d", err, w.Before.Refused, w.Requests, refused)
		}
	})
}

// TestWhatIfHides: what is kept of clients, and what comes out, has no name that the
// rules do not have.
func TestWhatIfHides(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var r Decisions
		before := parse(t, fmt.Sprintf(now, `"8/s"`))
		c := control(t, &r, `{"rules": []}`)
		c.Rules.Swap(before)
		r.Prepare(c.Rules)
		live(t, 1, c)
		kept := ""
		for _, b := range r.ring.records() {
			kept += string(b)
		}
		for _, name := range []string{"any-1", "tenant3", "big-1", string(netip.MustParseAddr("198.51.100.40").AsSlice())} {
			if strings.Contains(kept, name) {
				t.Errorf("%q is kept as it is", name)
			}
		}
		for _, name := range []string{"team-1", "spam-2"} {
			if !strings.Contains(kept, name) {
				t.Errorf("%q, which a pattern of the rules matches, is not kept", name)
			}
		}
		w, err := r.WhatIf(t.Context(), time.Now(), before, before, true)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, k := range w.Before.Keys {
			if k.Name == "client=big-1" || strings.HasPrefix(k.Name, "client=team-") {
				named++
			} else if k.Name != "" && len(k.Name) != len(outcome.Digest("")) && !strings.HasPrefix(k.Name, "address=198.51.100.") {
				t.Errorf("a key is named %q", k.Name)
			}
		}
		if named == 0 {
			t.Errorf("no key of the rules is named: %+v", w.Before.Keys)
		}
	})
}

// TestWhatIfWarns: what cannot be replayed is said.
func TestWhatIfWarns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var r Decisions
		before := parse(t, fmt.Sprintf(now, `"8/s"`))
		c := control(t, &r, `{"rules": []}`)
		c.Rules.Swap(before)
		r.Prepare(c.Rules)
		live(t, 1, c)
		for _, x := range []struct{ text, want string }{
			{`{"deny": "198.51.100.0/24", "rules": []}`, "198.51.100.0/24 is new"},
			{`{"deny": "2001:db8::1", "rules": []}`, "2001:db8::1/128 is new"},
			{`{"deny": "client=a*", "rules": []}`, `"a*" of client is new`},
			{`{"rules": [{"name": "x", "key": "header:X-New", "limits": "1/s"}]}`, "1500 of the requests"},
			{
				`{"rules": [{"name": "e", "match": {"domains": "edge"}, "limits": "1/s"}, {"name": "o", "off": true, "match": {"domains": "edge"}, "limits": "1/s"}]}`,
				"descriptors of Envoy are not kept, so what 1 rule for them would refuse is not known: e",
			},
		} {
			w, err := r.WhatIf(t.Context(), time.Now(), before, parse(t, x.text), true)
			if err != nil || len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0], x.want) {
				t.Errorf("%s: %v, warnings %q, want one: %s", x.text, err, w.Warnings, x.want)
			}
		}
		if _, err := r.WhatIf(t.Context(), time.Now(), before, parse(t, `{"ipv6_prefix": 48, "rules": []}`), true); err == nil {
			t.Error("another ipv6_prefix: no error")
		}
		time.Sleep(longest + time.Second)
		if w, err := r.WhatIf(t.Context(), time.Now(), before, before, true); err != nil || w.Requests != 0 {
			t.Errorf("ten minutes later: %+v, %v, want no requests", w, err)
		}
	})
}

// TestWhatIfReload: a reload while requests are read does no harm.
func TestWhatIfReload(t *testing.T) {
	var r Decisions
	before := parse(t, `{"rules": []}`)
	c := control(t, &r, `{"rules": []}`)
	begin(t, c, 1, "a", "/")
	back := r.restorer(viewOf(before)) // the reload is between this and the copy of the ring
	c.Rules.Swap(parse(t, `{"rules": [{"name": "new", "key": "header:X-New", "limits": "1/s"}]}`))
	r.Prepare(c.Rules)
	begin(t, c, 1, "a", "/")
	n := 0
	for q := range r.replayed(&WhatIf{Real: Real{Rules: map[string]int64{}}}, time.Now(), back) {
		n++
		if text := q.Header("X-New"); text != "" {
			t.Errorf("request %d: field %q, want none", n, text)
		}
	}
	if n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// TestWhatIfWhileReloaded: while requests are replayed the rules may be put into use anew
// again and again; each replay is of all requests, by one version.
func TestWhatIfWhileReloaded(t *testing.T) {
	var r Decisions
	c := control(t, &r, `{"rules": []}`)
	begin(t, c, 100, "a", "/")
	versions := []*rules.Compiled{parse(t, `{"rules": [{"name": "new", "key": "client", "limits": "40/h"}]}`), parse(t, `{"rules": [{"name": "new", "key": "header:X-New+client", "limits": "70/h"}]}`)}
	var group sync.WaitGroup
	ending := make(chan struct{})
	defer group.Wait()
	defer close(ending)
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-ending:
				return
			default:
			}
			c.Rules.Swap(versions[i%2])
			r.Prepare(c.Rules)
		}
	})
	for range 50 {
		before := c.Rules.Load()
		want := map[*rules.Compiled]int64{versions[0]: 60, versions[1]: 30}[before]
		if w, err := r.WhatIf(t.Context(), time.Now(), before, versions[0], true); err != nil || w.Requests != 100 || w.Before.Refused != want || w.After.Refused != 60 {
			t.Fatalf("%+v, %v, want %d of 100 refused before and 60 after", w, err, want)
		}
	}
}

// TestWhatIfNetworkOfClient: where a network of IPv4 makes one client, an address in it
// is not taken for all of them, whatever the bits of IPv6 are.
func TestWhatIfNetworkOfClient(t *testing.T) {
	var r Decisions
	const bits = `{"ipv4_prefix": 24, "ipv6_prefix": 128, `
	c := control(t, &r, bits+`"rules": []}`)
	begin(t, c, 3, "a", "/") // from 192.0.2.1
	after := parse(t, bits+`"deny": ["192.0.2.99", "192.0.2.7"], "rules": []}`)
	w, err := r.WhatIf(t.Context(), time.Now(), c.Rules.Load(), after, true)
	if err != nil || w.Requests != 3 || w.After.Refused != 0 || len(w.Warnings) != 2 {
		t.Errorf("%+v, %v, want none of 3 refused, and two warnings", w, err)
	}
	six := parse(t, bits+`"deny": "2001:db8::1", "rules": []}`)
	a, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Path: "/", Address: netip.MustParseAddr("2001:db8::1")}})
	if err != nil {
		t.Fatal(err)
	}
	a.Done()
	if w, err = r.WhatIf(t.Context(), time.Now(), c.Rules.Load(), six, true); err != nil || w.After.Refused != 1 || len(w.Warnings) != 0 {
		t.Errorf("an address of IPv6: %+v, %v, want 1 of 4 refused, without a warning", w, err)
	}
}

// TestRing: the ring keeps the latest, in bounded memory.
func TestRing(t *testing.T) {
	var r ring
	record := make([]byte, 1000)
	for i := range 20_000 { // 20 MB
		record[0], record[1] = byte(i), byte(i>>8)
		r.add(record)
	}
	all := r.records()
	size := 0
	for _, c := range r.chunks {
		size += cap(c)
	}
	last := all[len(all)-1]
	if n := len(all); size > maxChunks*chunkBytes || n < 8000 || n > 8400 || int(last[0])|int(last[1])<<8 != 19_999 {
		t.Errorf("%d records in %d bytes, the last %d, want some 8,200 in 8 MiB, up to 19999", n, size, last[:2])
	}
	for i := 1; i < len(all); i++ {
		if a, b := int(all[i-1][0])|int(all[i-1][1])<<8, int(all[i][0])|int(all[i][1])<<8; b != a+1 {
			t.Fatalf("record %d after %d", b, a)
		}
	}
}

// TestDescriptorsAreNotKept: what-if replays requests, and leaves out descriptors.
func TestDescriptorsAreNotKept(t *testing.T) {
	c, err := rules.Parse([]byte(`{"rules": [{"name": "a", "limits": "1/h"}, {"name": "b", "match": {"domains": "edge"}, "limits": "1/h"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var live rules.Live
	live.Swap(c)
	var d Decisions
	d.Prepare(&live)
	control := admit.Control{Rules: &live, OnEvent: func(e admit.Event) { d.OnEvent(&e) }}
	for _, q := range []rules.Request{{Path: "/"}, {Domain: "edge", Descriptor: []rules.Pair{{Key: "key", Value: "secret"}}}} {
		if _, err := control.Begin(t.Context(), admit.Request{Request: q}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := d.WhatIf(t.Context(), time.Now(), c, c, true)
	if err != nil || w.Requests != 1 || w.LeftOut != 1 {
		t.Errorf("WhatIf = %+v, %v; want one request, and one left out", w, err)
	}
}
