package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// TestWork: all jobs run, at the rate of their customers, and no more of one at a
// time than its bound.
func TestWork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		control := &admit.Control{Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 5}, MaxInFlight: 2}
		var mu sync.Mutex
		running, most, ran := map[string]int{}, map[string]int{}, 0
		jobs := make(chan job)
		go func() {
			defer close(jobs)
			for i := range 100 {
				name := []string{"a", "b"}[i%2]
				jobs <- job{customer: name, run: func(context.Context) {
					mu.Lock()
					running[name]++
					most[name] = max(most[name], running[name])
					ran++
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					running[name]--
					mu.Unlock()
				}}
			}
		}()
		began := time.Now()
		work(t.Context(), control, jobs, 20)
		if took := time.Since(began); ran != 100 || took < 4*time.Second || took > 8*time.Second {
			t.Errorf("%d jobs ran in %v, want 100 in about (50 - 5)/10 s", ran, took)
		}
		if most["a"] > 2 || most["b"] > 2 {
			t.Errorf("%v ran at a time, want at most 2 of each", most)
		}
	})
}

// TestWorkEnds: with its context, whatever waits.
func TestWorkEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		jobs := make(chan job, 100)
		for range 100 {
			jobs <- job{customer: "a", run: func(context.Context) {}}
		}
		work(ctx, &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}, jobs, 5)
		if len(jobs) < 90 {
			t.Errorf("%d jobs left, want nearly all: one ran, five waited", len(jobs))
		}
	})
}
