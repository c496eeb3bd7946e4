package survey

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// TestSharedHolds: nearly all that the bound holds a coordinator can hold that
// does not know how long each request will be on its way, whatever the kind of
// the limit; so what others miss is no fault of the bars.
func TestSharedHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	o := options{}
	held, kinds := 0, map[limit.Kind]int{}
	const cells = 60
	for number, n := 0, 0; n < cells; number++ {
		c := survey.Draw(6, number)
		if c.Rate*c.Scenario.Duration.Seconds() > 5000 {
			continue // so that the test is quick
		}
		n++
		kinds[c.Scenario.Server.Limit.Kind]++
		bound := o.figures(t.Context(), c, 1, sim.Bound, math.MaxInt64)
		f := o.figures(t.Context(), c, 1, with(shared(c.Scenario)), enough(3, bound))
		if c.Judge(f, bound, true).Held() {
			held++
		}
	}
	if held < 54 || len(kinds) < 7 {
		t.Errorf("held %d of %d cells of %d kinds, want 54 or more, of all 7", held, cells, len(kinds))
	}
}

// TestSharedTakesTurns: of two clients on a bucket of one token a second each
// has every other; a change is known when it comes.
func TestSharedTakesTurns(t *testing.T) {
	p := shared(sim.Scenario{
		Server: sim.Server{
			Limit:   limit.Limit{Count: 1, Period: time.Second, Burst: 1},
			Changes: []sim.Change{{At: 5 * time.Second, Count: 2, Period: time.Second}},
		},
	}).Begin()
	clients := []pace.Controller{p(), p()}
	now, order := time.Unix(0, 0), []int{}
	for range 10 {
		i := 0
		if clients[1].Wait(now, pace.Request{}) < clients[0].Wait(now, pace.Request{}) {
			i = 1
		}
		now = now.Add(max(clients[i].Wait(now, pace.Request{}), 0))
		clients[i].Start(now, pace.Request{})
		order = append(order, i)
	}
	for k, i := range order {
		if i != k%2 {
			t.Errorf("turns %v", order)
			break
		}
	}
	if took := now.Sub(time.Unix(0, 0)).Round(time.Millisecond); took != 7*time.Second {
		t.Errorf("ten took %v, want 7 s: five at 1/s, then 2/s", took)
	}
}
