package main

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// TestStandins plays every scene at stand-ins, in virtual time.
func TestStandins(t *testing.T) {
	const ms = time.Millisecond
	fiveHundred := standin.Knobs{Service: 2 * ms, Width: 1}
	for name, play := range map[string]func(t *testing.T){
		"Best": func(t *testing.T) {
			// 600/s at 12 in flight.
			sceneBest(t, standins(t, standin.Knobs{Service: 20 * ms, Width: 12}), []int{16}, 900, 2*time.Second)
		},
		"Collapse": func(t *testing.T) {
			s := standins(t, fiveHundred)
			sceneCollapse(t, s, 1200, 3*time.Second, 0)
		},
		"Refused": func(t *testing.T) {
			sceneRefused(t, standins(t, standin.Knobs{Limit: limit.Limit{Count: 200, Period: time.Second, Burst: 20}}), 200, 500, 6*time.Second)
		},
		"Lifted": func(t *testing.T) { sceneLifted(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 1})) },
		"Frozen": func(t *testing.T) {
			sceneFrozen(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 5}), 1500, 3*time.Second, 600*ms)
		},
		"Down": func(t *testing.T) {
			sceneDown(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 5}), 400, 3*time.Second)
		},
		"Neighbour": func(t *testing.T) {
			sceneNeighbour(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 5}), 1200, 2*time.Second, 4*time.Second)
		},
		"Several": func(t *testing.T) { sceneSeveral(t, standins(t, fiveHundred), 500, 300, 3*time.Second) },
		"Slow": func(t *testing.T) {
			sceneSlow(t, standins(t, standin.Knobs{Service: 5 * ms, Width: 5}), 1900, 5*time.Second, 5*time.Second)
		},
		"Node": func(t *testing.T) {
			// 3 nodes of 1000/s, of which one does 100/s and has a third of the rows.
			sceneNode(t, standins(t, standin.Knobs{Service: 5 * ms, Width: 5, Nodes: 3, Slow: 10}), 300, 600, 4*time.Second)
		},
		"Lost": func(t *testing.T) {
			sceneLost(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 5}), 700, 3*time.Second)
		},
		"Metastable": func(t *testing.T) {
			s := standins(t, fiveHundred)
			sceneMetastable(t, s, "trigger", s.slow, 2*time.Second, 4*time.Second)
		},
		"Poison": func(t *testing.T) {
			scenePoison(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 10}), 1500, 300)
		},
		"Killed": func(t *testing.T) {
			sceneKilled(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 10}), 1200, 200, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			bubble.Test(t, play)
			t.Logf("%v by the clock on the wall", time.Since(began).Round(time.Millisecond))
		})
	}
}
