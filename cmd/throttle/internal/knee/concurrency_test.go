package knee

import (
	"fmt"
	"testing"
)

func TestProtoConc(t *testing.T) {
	for _, c := range cases[:8] {
		s := &Search{Objective: Objective{Latency: c.bound}, Concurrency: true}
		r := find(s, c.service.start(1))
		fmt.Println(c.name, r.Knee, r.Capacity, r.CapacityAt, r.Stop, r.Recovery, r.Spent, r.Rule(0))
	}
}
