package knee

import (
	"fmt"
	"os"
	"testing"
)

func TestProtoFit(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip()
	}
	for _, c := range cases {
		s := &Search{Objective: Objective{Latency: c.bound}}
		r := find(s, c.service.start(1))
		sc, ok := r.Scenario(r.Knee.At)
		fmt.Println(c.name, ok, sc.Server.Service, sc.Network.Latency, r.Rule(0))
		for _, f := range []float64{0.25, 0.5, 0.8, 0.9, 1, 1.3} {
			rate := r.Knee.At * f
			v := c.service.start(9)
			o := v.run(Trial{Rate: rate, Duration: duration(10000 / rate), Parts: 10}, s.Objective)
			m := model{workers: sc.Server.Service.AtOnce}
			for _, x := range r.models() {
				if x.workers == m.workers {
					m = x
				}
			}
			p := m.curve(s.Objective, rate, 10000)
			fmt.Printf("   %.2f goodput %.0f %.0f p50 %v %v mean %v %v p99 %v %v\n", f, float64(o.Good)/o.Took.Seconds(), p.Goodput, o.P50, p.P50, o.Mean, p.Mean, o.P99, p.P99)
		}
	}
}
