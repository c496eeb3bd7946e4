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
	at500 := standin.Knobs{Service: 2 * ms, Width: 1}
	for name, play := range map[string]func(t *testing.T){
		"Best": func(t *testing.T) {
			// 600/s at 12 in flight.
			sceneBest(t, standins(t, standin.Knobs{Service: 20 * ms, Width: 12}), []int{16}, 800, 3*time.Second)
		},
		"Collapse": func(t *testing.T) {
			s := standins(t, at500)
			sceneCollapse(t, s, 1200, 3*time.Second)
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
		"Poison": func(t *testing.T) {
			scenePoison(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 10}), 1500, 300)
		},
		"Killed": func(t *testing.T) {
			sceneKilled(t, standins(t, standin.Knobs{Service: 10 * ms, Width: 10}), 2500, 500, 3*time.Second)
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
