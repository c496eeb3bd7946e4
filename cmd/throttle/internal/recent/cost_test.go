package recent

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// run decides n requests of many clients, and returns the time of one.
func run(c *admit.Control, clients []string, from, n int) time.Duration {
	a := new(admit.Admission)
	q := admit.Request{Request: rules.Request{Path: "/", Method: "GET", Address: netip.MustParseAddr("192.0.2.1")}}
	began := time.Now()
	for i := range n {
		q.Client = clients[(from+i)*7919%len(clients)]
		_ = c.BeginIn(context.Background(), q, a) // a store in memory does not fail
		a.Done()
	}
	return time.Since(began) / time.Duration(n)
}

// TestCost measures what remembering adds to the decision of a Control with one rule
// over a store in memory, without the request around it, in runs
// that alternate. It needs a machine of its own, so THROTTLE_SOAK=1.
func TestCost(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("set THROTTLE_SOAK=1: it measures time; what remembering costs is not tested")
	}
	clients := make([]string, 100_000)
	for i := range clients {
		clients[i] = fmt.Sprintf("client-%d", i)
	}
	for _, c := range []struct {
		name, limit string
		clients     int
	}{{"passes", "1000000/s", 100_000}, {"refusals of 100 keys", "1/h", 100}, {"refusals of 100,000 keys", "1/h", 100_000}} {
		text := `{"rules": [{"name": "client", "key": "client", "limits": "` + c.limit + `"}]}`
		var counter admit.Counter
		plain := control(t, nil, text)
		plain.OnEvent = counter.OnEvent // what is there in any case
		r := new(Decisions)
		with := control(t, nil, text)
		with.OnEvent = func(e admit.Event) { counter.OnEvent(e); r.OnEvent(&e) }
		const n = 2000
		var base, both []time.Duration
		for i := range 1000 {
			base = append(base, run(plain, clients[:c.clients], i*n, n))
			both = append(both, run(with, clients[:c.clients], i*n, n))
		}
		// Others on the machine only ever add, so the quick runs say most; the first
		// 400 make the clients known, and begin the sampling.
		base, both = base[400:], both[400:]
		slices.Sort(base)
		slices.Sort(both)
		for _, p := range []int{1, 5, 10, 25} {
			x, y := base[len(base)*p/100], both[len(both)*p/100]
			t.Logf("%s, quickest %d %%: a decision %v, remembered %v: %.1f %% more", c.name, p, x, y, 100*(float64(y)/float64(x)-1))
		}
	}
}
