package sim

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestCrowdDebug(t *testing.T) {
	if os.Getenv("CROWD") == "" {
		t.Skip()
	}
	s := Scenario{Name: "x", Duration: 21 * time.Second, Server: Server{Service: Service{Time: time.Millisecond, Spread: 0.5, AtOnce: 32, Queue: -1}},
		Network: Network{Latency: 500 * time.Microsecond, Spread: 0.2}, Clients: []Group{{Processes: 10, Workers: 100}}}
	r := New(s, policy(t, "none(in-flight=adaptive)"), 1)
	last := map[int]string{}
	for !r.Step(1) {
		if r.now < 9.9e9 || r.now > 10.4e9 {
			continue
		}
		for i, l := range r.lanes {
			x := fmt.Sprintf("%+v", l.gate.Concurrency)
			k := x[:indexOf(x, "last:")]
			if k != last[i] {
				last[i] = k
				fmt.Println(i, time.Duration(r.now), x[7:indexOf(x, "last:")], x[indexOf(x, "means:"):indexOf(x, "since")])
			}
		}
	}
}
