package rules_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// tenRules are ten rules of which each request matches all, or, with a path of
// their own, one.
func tenRules(match bool) string {
	keys := []string{"address", "client", "header:X-Api-Key", "client+path:1", "host"}
	var list []string
	for i := range 10 {
		path := "/*"
		if match {
			path = fmt.Sprintf("/%d/*", i)
		}
		list = append(list, fmt.Sprintf(`{"name": "rule-%d", "match": {"methods": "GET", "paths": %q}, "key": %q, "limits": "1000000000/s"}`, i, path, keys[i%len(keys)]))
	}
	return `{"deny": ["203.0.113.0/24", "client=mallory*"], "rules": [` + strings.Join(list, ",") + `]}`
}

func benchRequest() rules.Request {
	h := http.Header{"X-Api-Key": {"0123456789abcdef0123456789abcdef"}}
	return rules.Request{
		Method: "GET", Host: "api.example.org", Path: "/3/orders/17", Address: addr("192.0.2.7"), Client: "customer-4711", Header: h.Get,
	}
}

// BenchmarkDecide is a decision with ten rules: without the Store's share, and
// with a memory.Store.
func BenchmarkDecide(b *testing.B) {
	consent := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		for i := range d {
			d[i].OK = true
		}
		return true, nil
	})
	for _, x := range []struct {
		name  string
		store store.Store
		one   bool
	}{
		{"asks=1/store=none", consent, true},
		{"asks=10/store=none", consent, false},
		{"asks=1/store=memory", new(memory.Store), true},
		{"asks=10/store=memory", new(memory.Store), false},
	} {
		b.Run(x.name, func(b *testing.B) {
			c, r := mustParse(b, tenRules(x.one)), benchRequest()
			b.ReportAllocs()
			for b.Loop() {
				if a, err := c.Decide(b.Context(), x.store, r); err != nil || !a.OK {
					b.Fatal(a, err)
				}
			}
		})
	}
}

// TestAllocations: the keys are made in one piece, and that is all.
func TestAllocations(t *testing.T) {
	consent := store.Func(func(_ context.Context, a []limit.Ask, _ []limit.Decision) (bool, error) { return len(a) == 10, nil })
	c, r := mustParse(t, tenRules(false)), benchRequest()
	least := math.Inf(1)
	for range 50 { // under the race detector pools forget at random
		least = min(least, testing.AllocsPerRun(1, func() { c.Decide(t.Context(), consent, r) }))
	}
	if least != 1 {
		t.Errorf("a decision with ten rules makes %v allocations, want 1", least)
	}
}
