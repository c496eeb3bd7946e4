package recent

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sketch"
	"github.com/throttle-go/throttle/rules"
)

// adds returns what something adds to a call of do, in percent: the median of rounds of
// 200 calls with it and 200 without, in turns, so that what else runs on the machine
// slows both. It also returns the time of a call without it.
func adds(do func(i int, with bool)) (percent float64, without time.Duration) {
	const calls = 200
	all, each := make([]float64, 1000), make([]time.Duration, 1000)
	for round := range all {
		var took [2]time.Duration
		for turn := range 2 {
			with := (turn + round) % 2
			began := time.Now()
			for i := range calls {
				do(calls*(2*round+turn)+i, with == 1)
			}
			took[with] = time.Since(began)
		}
		all[round], each[round] = 100*float64(took[1]-took[0])/float64(took[0]), took[0]/calls
	}
	slices.Sort(all)
	slices.Sort(each)
	return all[len(all)/2], each[len(each)/2]
}

// costOf measures what counting and keeping add to the decision of a Control with one rule
// over a store in memory, in percent, once so many were decided that they are sampled.
func costOf(t *testing.T, limits, client string, keys int) (counted, kept float64, decision time.Duration) {
	var r Decisions
	var counts, keeps bool
	control := control(t, nil, `{"rules": [{"name": "client", "key": "client", "limits": "`+limits+`"}]}`)
	r.Prepare(control.Rules)
	r.once.Do(r.setUp)
	counter := admit.Counter{}
	control.OnEvent = func(e admit.Event) {
		counter.OnEvent(e)
		if counts {
			r.count(&e, sketch.PaneAt(e.Answer.Decision.At)>>32) // one pane, however long it takes
		}
		if keeps {
			r.record(&e, e.Answer.Decision.At)
		}
	}
	decide := func(i int) {
		a, err := control.Begin(t.Context(), admit.Request{
			Request: rules.Request{Client: client + strconv.Itoa(i%keys), Path: "/api/v1/things", Host: "api.example", Method: "GET", Address: netip.MustParseAddr("192.0.2.1")},
			Version: control.Rules.Load(),
		})
		if err != nil {
			t.Fatal(err)
		}
		a.Done()
	}
	for r.sketch.Every(0, sketch.All) < sketch.Sparsely {
		r.sketch.Add(0, sketch.All, rand.Uint64(), 1, "client/0")
		r.sketch.Add(0, sketch.Refused, rand.Uint64(), 1, "client/0")
	}
	for i := range 2 * keys {
		decide(i)
	}
	counted, decision = adds(func(i int, with bool) { counts = with; decide(i) })
	counts = false
	kept, _ = adds(func(i int, with bool) { keeps = with; decide(i) })
	return counted, kept, decision
}

// TestSoakCost: counting adds at most 3 % to a decision without any request around it. It
// measures time, so it runs with THROTTLE_SOAK=1 only.
func TestSoakCost(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: what remembering costs is NOT measured; make soak runs it")
	}
	for _, c := range []struct {
		name, limits, client string // the keys are this and a number
		keys                 int
	}{
		{"passes of one key", "1000000000/s", "client-", 1},
		{"passes of 20,000 keys", "1000000000/s", "client-", 20_000},
		{"refusals of one key", "1/h", "client-", 1},
		{"refusals of 20,000 keys", "1/h", "client-", 20_000}, // each takes the counter of another
		{"refusals of 20,000 long keys", "1/h", strings.Repeat("client-", 8), 20_000},
	} {
		var counted, kept [5]float64
		var decision time.Duration
		for i := range counted { // as memory is laid out by chance
			counted[i], kept[i], decision = costOf(t, c.limits, c.client, c.keys)
		}
		slices.Sort(counted[:])
		slices.Sort(kept[:])
		t.Logf("%s: a decision %v, its count %.1f %%, its record %.1f %%", c.name, decision, counted, kept)
		if counted[2] > 3 {
			t.Errorf("%s: the count takes %.1f %% of a decision, want at most 3 %%", c.name, counted[2])
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
