package recent

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/rules"
)

// least is the time of one of the quickest calls, of 200 at a time: what else runs on
// the machine only ever adds.
func least(do func(i int)) time.Duration {
	best, i := time.Hour, 0
	for range 2000 {
		began := time.Now()
		for range 200 {
			do(i)
			i++
		}
		best = min(best, time.Since(began))
	}
	return best / 200
}

// TestCost measures what counting and keeping add to the decision of a Control with
// one rule over a store in memory, without any request around it. It measures time,
// so it runs with THROTTLE_SOAK=1 only.
func TestCost(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("set THROTTLE_SOAK=1: it measures time; what remembering costs is not tested")
	}
	for _, c := range []struct {
		name, limit string
		keys        int
		most        float64 // percent of a decision, for the count
	}{
		{"passes of one key", "1000000000/s", 1, 3},
		{"passes of 20,000 keys", "1000000000/s", 20_000, 3},
		{"refusals of one key", "1/h", 1, 5},
		{"refusals of 20,000 keys", "1/h", 20_000, 10}, // each takes the counter of another
	} {
		var r Decisions
		events := make([]admit.Event, 0, c.keys)
		control := control(t, nil, `{"rules": [{"name": "client", "key": "client", "limits": "`+c.limit+`"}]}`)
		counter := admit.Counter{}
		control.OnEvent = counter.OnEvent
		decide := func(i int) *admit.Admission {
			a, err := control.Begin(context.Background(), admit.Request{
				Request: rules.Request{Client: "client-" + strconv.Itoa(i%c.keys), Path: "/api/v1/things", Host: "api.example", Method: "GET", Address: netip.MustParseAddr("192.0.2.1")},
				Version: control.Rules.Load(),
			})
			if err != nil {
				t.Fatal(err)
			}
			a.Done()
			return a
		}
		for i := range 2 * c.keys {
			if a := decide(i); i >= c.keys {
				events = append(events, a.Event)
			}
		}
		at := events[0].Answer.Decision.At
		r.OnEvent(&events[0])
		for i := range 2_000_000 { // until passes are sampled
			r.count(&events[i%c.keys], sketch.PaneAt(at))
		}
		count := least(func(i int) { r.count(&events[i%c.keys], sketch.PaneAt(at)) })
		keep := least(func(i int) { r.record(&events[i%c.keys], at) })
		decision := least(func(i int) { decide(i) })
		percent := 100 * float64(count) / float64(decision)
		t.Logf("%s: a decision %v, its count %v (%.1f %%), its record %v", c.name, decision, count, percent, keep)
		if percent > c.most {
			t.Errorf("%s: the count takes %.1f %% of a decision, want at most %v %%", c.name, percent, c.most)
		}
	}
}
