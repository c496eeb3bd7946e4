package recent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
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

// TestSoakCost measures what counting and keeping add to the decision of a Control with
// one rule over a store in memory, without any request around it. It measures time,
// so it runs with THROTTLE_SOAK=1 only.
func TestSoakCost(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: what remembering costs is NOT measured; make soak runs it")
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
		var event admit.Event
		control := control(t, nil, `{"rules": [{"name": "client", "key": "client", "limits": "`+c.limit+`"}]}`)
		r.Prepare(control.Rules)
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
		keys := make([]string, c.keys)
		for i := range 2 * c.keys {
			event = decide(i).Event
			keys[i%c.keys] = event.Asks[0].Key
		}
		at := event.Answer.Decision.At
		r.OnEvent(&event)
		count := func(i int) { // of the same event, as a decision has it in the cache
			event.Asks[0].Key = keys[i%c.keys]
			r.count(&event, sketch.PaneAt(at))
		}
		for i := range 2_000_000 { // until passes are sampled
			count(i)
		}
		counted, decision := least(count), least(func(i int) { decide(i) })
		keep := least(func(int) { r.record(&event, at) })
		percent := 100 * float64(counted) / float64(decision)
		t.Logf("%s: a decision %v, its count %v (%.1f %%), its record %v", c.name, decision, counted, percent, keep)
		if percent > c.most {
			t.Errorf("%s: the count takes %.1f %% of a decision, want at most %v %%", c.name, percent, c.most)
		}
	}
}

// TestSoakCostOfGateway is the time of a request through the gateway, from its handler to
// an upstream on this machine and back, to compare with the above.
func TestSoakCostOfGateway(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: what remembering costs is NOT measured; make soak runs it")
	}
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer to.Close()
	c := control(t, nil, `{"rules": [{"name": "address", "key": "address", "limits": "1000000000/s"}]}`)
	g, err := gateway.New(gateway.Config{Listen: []gateway.Listen{{Addr: "127.0.0.1:0"}}, Routes: []gateway.Route{{To: []string{to.URL}}}, Control: c})
	if err != nil {
		t.Fatal(err)
	}
	best := time.Hour
	for range 5000 {
		q := httptest.NewRequest("GET", "/api/v1/things", nil)
		w := httptest.NewRecorder()
		began := time.Now()
		g.ServeHTTP(w, q)
		best = min(best, time.Since(began))
		if w.Code != http.StatusNoContent {
			t.Fatalf("status %d", w.Code)
		}
	}
	t.Logf("a request through the gateway: %v", best)
}
