package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// pipeline writes the records of a topic into a table.
type pipeline struct {
	o        options
	log      io.Writer
	db       *database
	client   *kgo.Client
	admin    *kadm.Client
	source   *source
	worker   *worker.Worker[*kgo.Record]
	throttle *throttle.Throttle
	lag      lag
	took     latencies       // of writes that were served
	typical  atomic.Int64    // median of the last second with writes, in nanoseconds
	over     context.Context // ends when a run is to end, with the cause
	fatal    context.CancelCauseFunc
}

// open connects to both sides and checks what can be checked: the brokers, the
// topics, the database and its table.
func open(ctx context.Context, o options, log io.Writer) (p *pipeline, err error) {
	p = &pipeline{o: o, log: log}
	p.over, p.fatal = context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.source = &source{topic: o.topic, drain: o.revoke, parts: map[int32]*partition{}}
	if p.client, err = kgo.NewClient(p.clientOptions()...); err != nil {
		return p, usage{err}
	}
	p.source.client, p.admin = p.client, kadm.NewClient(p.client)
	if err = p.checkTopics(ctx); err != nil {
		return p, err
	}
	if p.db, err = connect(ctx, o); err != nil {
		return p, err
	}
	p.throttle = &throttle.Throttle{
		MaxInFlight: o.most,
		// How many at once, learnt from latency and time-outs.
		Concurrency: &load.Adaptive{Slowdown: o.slowdown},
		// How many a second, learnt from refusals: unpaced until there is one. A
		// refused write costs little and is retried, so it may try for more every
		// few seconds.
		Control: &pace.Adaptive{Probe: 5 * time.Second},
	}
	p.worker = &worker.Worker[*kgo.Record]{
		Handle:      p.handle,
		Throttle:    p.throttle,
		Offset:      func(r *kgo.Record) int64 { return r.Offset },
		Size:        func(r *kgo.Record) int { return len(r.Key) + len(r.Value) + 200 },
		Window:      o.window,
		MaxBytes:    o.bytes,
		MaxInFlight: o.most,
		Timeout:     o.timeout + o.timeout/2, // the driver's own comes first
		Tries:       o.tries,
		Room:        p.source.room,
		OnEvent:     p.event,
	}
	if o.dead != "" {
		p.worker.Dead = p.bury
	}
	if o.fixed { // as a pool of goroutines that each retry after 100 ms
		p.throttle.Control, p.throttle.Concurrency = new(pace.Fixed), nil
		p.worker.Breaker, p.worker.Backoff = -1, pace.Backoff{Factor: 1}
	}
	p.source.worker = p.worker
	return p, nil
}

func (p *pipeline) clientOptions() []kgo.Opt {
	return append(p.o.kafka(),
		kgo.ConsumerGroup(p.o.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // no record of a transaction that was aborted
		kgo.KeepControlRecords(),                     // markers of transactions have offsets to commit too
		// Partitions stay where they are between a poll and AllowRebalance.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(p.source.assigned),
		kgo.OnPartitionsRevoked(p.source.revoked),
		kgo.OnPartitionsLost(p.source.lost),
		// How long the partitions of a process that died rest.
		kgo.SessionTimeout(p.o.session),
		kgo.HeartbeatInterval(p.o.session/10),
		// What is fetched ahead of the window.
		kgo.FetchMaxBytes(4<<20),
		kgo.FetchMaxWait(500*time.Millisecond),
	)
}

// kafka are the options of every client of the brokers.
func (o *options) kafka() []kgo.Opt {
	all := []kgo.Opt{kgo.SeedBrokers(o.brokers...)}
	if o.dial != nil {
		all = append(all, kgo.Dialer(o.dial))
	}
	return all
}

// checkTopics checks that the brokers answer and have the topics.
func (p *pipeline) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.client.Ping(ctx); err != nil {
		return fmt.Errorf("no Kafka at %v: %w; is it running, and is that its advertised listener?", p.o.brokers, err)
	}
	names := []string{p.o.topic}
	if p.o.dead != "" {
		names = append(names, p.o.dead)
	}
	if p.o.create {
		for _, name := range names {
			if err := createTopic(ctx, p.admin, name); err != nil {
				return err
			}
		}
	}
	for {
		topics, err := p.admin.ListTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("asking Kafka for its topics: %w", err)
		}
		missing := ""
		for _, name := range names {
			if t, ok := topics[name]; !ok || t.Err != nil {
				missing = name
			}
		}
		if missing == "" {
			return nil
		}
		// A broker may not know a new topic yet.
		select {
		case <-time.After(100 * time.Millisecond):
			if p.o.create {
				continue
			}
		case <-ctx.Done():
		}
		return fmt.Errorf("topic %s is not there: create it, or start once with -create", missing)
	}
}

// handle makes one try of a record.
func (p *pipeline) handle(ctx context.Context, r *kgo.Record) error {
	err := p.db.write(ctx, r.Value, r.Timestamp)
	var s *schema
	if errors.As(err, &s) { // no record is at fault: none may go to the dead letters
		p.fatal(err)
		return throttle.Ignore(err)
	}
	return err
}

// bury writes a record that was given up to the topic of dead letters, with
// where it was and why, so that it can be written again later.
func (p *pipeline) bury(ctx context.Context, r *kgo.Record, why error) error {
	letter := &kgo.Record{Topic: p.o.dead, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: append(r.Headers,
		kgo.RecordHeader{Key: "error", Value: []byte(why.Error())},
		kgo.RecordHeader{Key: "topic", Value: []byte(r.Topic)},
		kgo.RecordHeader{Key: "partition", Value: strconv.AppendInt(nil, int64(r.Partition), 10)},
		kgo.RecordHeader{Key: "offset", Value: strconv.AppendInt(nil, r.Offset, 10)},
	)}
	return p.client.ProduceSync(ctx, letter).FirstErr()
}

// run goes on until ctx ends, or nothing is left if it is to be done once, or
// something is wrong that no retry mends. Then it gets the drain time to end what
// is in flight, and commits.
func (p *pipeline) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { p.fatal(errDone) })
	defer stop()
	// Writes go on while what is in flight drains, so they have a context that
	// does not end before.
	p.source.ctx = context.WithoutCancel(ctx)
	p.client.AddConsumeTopics(p.o.topic)
	polled := make(chan struct{})
	go func() { // ends with p.over
		defer close(polled)
		p.source.poll(p.over, p.fetchFailed(p.complain("kafka")))
	}()
	p.tick(p.over)
	<-polled

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.drain)
	defer cancel()
	if err := p.worker.Drain(drain); err != nil {
		fmt.Fprintf(p.log, "drain: %v; what was in flight is written again next time\n", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := p.source.commit(last); err != nil {
		fmt.Fprintf(p.log, "last commit: %v; records since the one before are written again next time\n", err)
	}
	if why := context.Cause(p.over); why != errDone {
		return why
	}
	return nil
}

// fetchFailed ends the run where the client does not go on by itself, as with a
// wrong setting or without the rights to read.
func (p *pipeline) fetchFailed(complain func(error)) func(error) {
	return func(err error) {
		var e *kerr.Error
		if errors.As(err, &e) && !e.Retriable {
			p.fatal(err)
			return
		}
		complain(err)
	}
}

// errDone ends a run that is to end.
var errDone = errors.New("done")

// limit is how many writes may be in flight now.
func (p *pipeline) limit() int { return p.throttle.Limit() }

// close ends what open began.
func (p *pipeline) close() {
	p.fatal(errDone)
	if p.client != nil {
		p.client.CloseAllowingRebalance()
	}
	if p.db != nil {
		p.db.close()
	}
}
