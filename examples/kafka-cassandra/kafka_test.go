package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
)

// TestPause: a partition whose window is full is paused and goes on; more is there
// than one fetch brings, and no more is kept than the window and a fetch.
func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{Service: 10 * time.Millisecond, Width: 20})
		const each = 400 // of 16 kB: a fetch brings 1 MB of a partition
		s.begin(t, "pause").stop()
		s.produce(t, "pause", each, "-size", "16000")
		ours := s.begin(t, "pause", "-window", "100", "-once").run(t)
		most := 0
		for _, c := range over(t, ours.pipeline, 20*time.Millisecond, 200*time.Millisecond) {
			most = max(most, c.gap)
		}
		ours.source.mu.Lock()
		kept := 0
		for _, p := range ours.source.parts {
			kept += len(p.rest)
		}
		ours.source.mu.Unlock()
		if most > 100 || kept > 500 {
			t.Errorf("%d records above the frontier of a partition and %d kept, want at most 100 and some 4 MB", most, kept)
		}
		select {
		case <-ours.ended:
		case <-time.After(5 * time.Minute):
		}
		if missing, above, committed := s.missing(t, "pause", each); missing+above != 0 || committed != each*partitions {
			t.Errorf("committed %d, %d missing, %d above; want all %d", committed, missing, above, each*partitions)
		}
	})
}

// TestRebalance: partitions that go to a member which joins, and back from one that
// ends, are committed before: no record is written twice.
func TestRebalance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{Service: 20 * time.Millisecond, Width: 10}) // 500/s
		const each = 1000
		s.begin(t, "rebalance").stop()
		s.produce(t, "rebalance", each)
		one := s.begin(t, "rebalance").run(t)
		flows(t, one.pipeline, 300)
		two := s.begin(t, "rebalance").run(t)
		flows(t, two.pipeline, 300)
		if n := len(one.worker.Stats().Assignments); n != partitions/2 {
			t.Errorf("the first has %d partitions, want %d", n, partitions/2)
		}
		time.Sleep(300 * time.Millisecond)
		if err := one.stop(); err != nil {
			t.Error(err)
		}
		done := counted(one.pipeline).done
		await(t, "the second has the rest", time.Minute, func() bool { return done+counted(two.pipeline).done >= each*partitions })
		time.Sleep(2 * time.Second)
		if missing, above, committed := s.missing(t, "rebalance", each); missing+above != 0 || committed != each*partitions {
			t.Errorf("committed %d, %d missing, %d above; want all %d", committed, missing, above, each*partitions)
		}
		if n := s.db.Stats().Written; n != each*partitions {
			t.Errorf("%d writes of %d records, want each once", n, each*partitions)
		}
	})
}
