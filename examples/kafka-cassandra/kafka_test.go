package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/worker"
)

// TestPause: a partition whose window is full is paused and goes on; more is there
// than one fetch brings, and no more is kept than the window and a fetch.
func TestPause(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
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

// TestTruncated: after a log was truncated, or made new, records at lower offsets
// are written, and committed though more was before.
func TestTruncated(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client, err := kgo.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		written := map[string]bool{}
		w := &worker.Worker[*kgo.Record]{
			Offset:      func(r *kgo.Record) int64 { return r.Offset },
			MaxInFlight: 1, Window: 4,
			Handle: func(ctx context.Context, r *kgo.Record) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				written[string(r.Value)] = true
				return nil
			},
		}
		s := &source{topic: "log", worker: w, client: client, ctx: t.Context(), parts: map[int32]*partition{}}
		w.Room = s.room
		records := func(from, to int64, log string) (all []*kgo.Record) {
			for at := from; at < to; at++ {
				all = append(all, &kgo.Record{Offset: at, Value: fmt.Append(nil, log, at)})
			}
			return all
		}
		keep := func(all []*kgo.Record) *partition {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.keep(0, all)
			return s.parts[0]
		}
		s.assigned(t.Context(), client, map[string][]int32{"log": {0}})
		keep(records(100, 103, "old"))
		time.Sleep(time.Minute)
		p := keep(records(103, 110, "old")) // more than the window
		p.committed = 103
		time.Sleep(1500 * time.Millisecond)
		keep(records(0, 6, "new"))
		time.Sleep(time.Minute)
		synctest.Wait()
		for at := range 6 {
			if !written[fmt.Sprint("new", at)] {
				t.Errorf("record %d of the new log is not written", at)
			}
		}
		if p = s.parts[0]; p.committed != -1 || written["old109"] {
			t.Errorf("committed %d, want -1; the end of the old log is written: %v", p.committed, written["old109"])
		}
		if next, ok := p.Frontier(); next != 6 || !ok {
			t.Errorf("frontier %d, %v, want 6", next, ok)
		}
		if p.rest != nil {
			t.Error("what was fetched is kept after all was accepted")
		}
		if n := len(w.Stats().Assignments); n != 1 {
			t.Errorf("%d assignments, want one: that of the old log has ended", n)
		}
		p.Lost()
	})
}

// TestTransactions: the markers of transactions are committed, so that no lag is
// left, and are no rows; nor are the records of those that were aborted.
func TestTransactions(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{})
		s.begin(t, "transactions").stop()
		c := s.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("writer"))
		defer c.Close()
		for n := range int64(9) {
			end := kgo.TryCommit
			if n%3 == 1 {
				end = kgo.TryAbort
			}
			if err := c.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			value, err := json.Marshal(madeUp(0, n, 120))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "transactions", Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := c.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		ours := s.begin(t, "transactions", "-once").run(t)
		select {
		case <-ours.ended:
		case <-time.After(time.Minute):
			t.Error("not at its end after a minute")
		}
		if at := s.committed(t, "transactions")[0]; at != 18 || s.db.Rows() != 6 || ours.worker.Stats().Done != 6 {
			t.Errorf("committed %d, %d rows, %d done; want 18, 6, 6", at, s.db.Rows(), ours.worker.Stats().Done)
		}
	})
}

// TestRebalance: partitions that go to a member which joins, and back from one that
// ends, are committed before: no record is written twice.
func TestRebalance(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
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

// TestLost: a partition that another member may own by now is written no more.
func TestLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client, err := kgo.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		written := 0
		w := &worker.Worker[*kgo.Record]{
			Offset:      func(r *kgo.Record) int64 { return r.Offset },
			MaxInFlight: 1,
			Handle: func(ctx context.Context, _ *kgo.Record) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				written++
				return nil
			},
		}
		s := &source{topic: "log", worker: w, client: client, ctx: t.Context(), parts: map[int32]*partition{}}
		s.assigned(t.Context(), client, map[string][]int32{"log": {0}})
		s.mu.Lock()
		for at := range int64(10) {
			s.keep(0, []*kgo.Record{{Offset: at}})
		}
		s.mu.Unlock()
		time.Sleep(2500 * time.Millisecond)
		s.lost(t.Context(), client, map[string][]int32{"log": {0}})
		time.Sleep(time.Minute)
		if written != 2 || len(w.Stats().Assignments) != 0 || len(s.parts) != 0 {
			t.Errorf("%d written, %d assignments, %d partitions; want 2, none, none", written, len(w.Stats().Assignments), len(s.parts))
		}
	})
}
