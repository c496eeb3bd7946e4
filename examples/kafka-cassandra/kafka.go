package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/throttle-go/throttle/worker"
)

// source feeds a Worker from those partitions of a topic that the group assigns
// to this process, and commits their frontiers. It is all that lies between
// franz-go and package worker; the options of its client are in clientOptions.
type source struct {
	topic  string
	worker *worker.Worker[*kgo.Record]
	drain  time.Duration // what a revoked partition gets to end what is in flight
	client *kgo.Client
	ctx    context.Context // of the assignments

	committing sync.Mutex // held during a commit, so that an old one never follows a newer
	mu         sync.Mutex
	parts      map[int32]*partition
}

// partition is one that is assigned now.
type partition struct {
	*worker.Assignment[*kgo.Record]
	rest      []*kgo.Record // fetched before the pause, and not accepted yet
	fetched   int64         // offset after the last record fetched
	committed int64
}

// pollRecords bounds a poll. What was fetched before a partition was paused is
// still returned, so FetchMaxBytes, of which compressed batches have more in them,
// bounds what rest may hold.
const pollRecords = 10_000

// poll fetches until ctx ends, and calls failed with each error. It never waits
// for the database, so it never delays a rebalance: a partition whose window is
// full is paused.
func (s *source) poll(ctx context.Context, failed func(error)) {
	for ctx.Err() == nil {
		fetched := s.client.PollRecords(ctx, pollRecords)
		fetched.EachError(func(_ string, p int32, err error) {
			if ctx.Err() == nil {
				failed(fmt.Errorf("fetching %s[%d]: %w", s.topic, p, err))
			}
		})
		s.mu.Lock()
		fetched.EachPartition(func(f kgo.FetchTopicPartition) { s.keep(f.Partition, f.Records) })
		s.mu.Unlock()
		// Only now may partitions move: what was fetched before belongs to the
		// assignment that it was added to.
		s.client.AllowRebalance()
	}
}

// keep takes what was fetched of a partition. The caller holds the lock.
func (s *source) keep(number int32, records []*kgo.Record) {
	p := s.parts[number]
	if p == nil || len(records) == 0 {
		return
	}
	if records[0].Offset < p.fetched {
		// The log was truncated, or made new, and the client began again below:
		// these offsets are of other records than before.
		p.Lost()
		p = s.assign(number)
	}
	p.fetched = records[len(records)-1].Offset + 1
	for _, r := range records {
		if !r.Attrs.IsControl() {
			p.rest = append(p.rest, r)
		}
	}
	s.add(number, p)
}

// add adds what there is room for. The caller holds the lock.
func (s *source) add(number int32, p *partition) {
	p.rest = p.rest[p.Add(p.rest...):]
	these := map[string][]int32{s.topic: {number}}
	if len(p.rest) > 0 {
		s.client.PauseFetchPartitions(these)
		return
	}
	p.rest = nil      // an empty slice would keep what it was cut from
	p.Skip(p.fetched) // past markers of transactions, so that no lag is left
	s.client.ResumeFetchPartitions(these)
}

// room is the Worker's Room.
func (s *source) room(a *worker.Assignment[*kgo.Record]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, p := range s.parts {
		if p.Assignment == a {
			s.add(number, p)
		}
	}
}

func (s *source) assigned(_ context.Context, c *kgo.Client, all map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ResumeFetchPartitions(all)
	for _, number := range all[s.topic] {
		s.assign(number)
	}
}

// assign begins a partition. The caller holds the lock.
func (s *source) assign(number int32) *partition {
	a := s.worker.Assign(s.ctx, fmt.Sprintf("%s[%d]", s.topic, number), -1)
	p := &partition{Assignment: a, committed: -1}
	s.parts[number] = p
	return p
}

// take removes partitions.
func (s *source) take(numbers []int32) map[int32]*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := map[int32]*partition{}
	for _, number := range numbers {
		if p := s.parts[number]; p != nil {
			taken[number] = p
			delete(s.parts, number)
		}
	}
	return taken
}

// revoked ends what is in flight, at most for drain, and commits a last time,
// before another process goes on from there.
func (s *source) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	drain, cancel := context.WithTimeout(ctx, s.drain)
	defer cancel()
	last := map[int32]int64{}
	var mu sync.Mutex
	var each sync.WaitGroup
	for number, p := range s.take(all[s.topic]) {
		each.Go(func() {
			if next, ok := p.Revoke(drain); ok {
				mu.Lock()
				defer mu.Unlock()
				last[number] = next
			}
		})
	}
	each.Wait()
	s.committing.Lock()
	defer s.committing.Unlock()
	_ = s.send(ctx, last) // if it fails, the next owner repeats some records
}

// lost ends partitions that another process may have already.
func (s *source) lost(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	for _, p := range s.take(all[s.topic]) {
		p.Lost()
	}
}

// commit commits each frontier that has moved since the last time.
func (s *source) commit(ctx context.Context) error {
	s.committing.Lock()
	defer s.committing.Unlock()
	s.mu.Lock()
	moved, parts := map[int32]int64{}, map[int32]*partition{}
	for number, p := range s.parts {
		if next, ok := p.Frontier(); ok && next > p.committed {
			moved[number], parts[number] = next, p
		}
	}
	s.mu.Unlock()
	if err := s.send(ctx, moved); err != nil {
		return fmt.Errorf("committing offsets of %s: %w", s.topic, err)
	}
	for number, next := range moved {
		parts[number].committed = next // guarded by committing
	}
	return nil
}

// send sends offsets to the broker, in the name of this member of the group.
func (s *source) send(ctx context.Context, next map[int32]int64) (failed error) {
	if len(next) == 0 {
		return nil
	}
	offsets := map[int32]kgo.EpochOffset{}
	for number, at := range next {
		offsets[number] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	s.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err != nil {
				return
			}
			for _, t := range answer.Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						failed = err
					}
				}
			}
		})
	return failed
}
