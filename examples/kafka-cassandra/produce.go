package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions are those of a topic that -create makes.
const partitions = 4

func createTopic(ctx context.Context, c *kadm.Client, name string) error {
	_, err := c.CreateTopic(ctx, partitions, -1, nil, name)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	return nil
}

// epoch is when the first reading of produce was made.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// madeUp is the n-th reading of a partition: one of 1,000 devices, a row of its
// own, some 80 bytes and a note.
func madeUp(partition int32, n int64, size int) reading {
	return reading{
		Device: fmt.Sprintf("p%d-%03d", partition, n%1000),
		At:     epoch.Add(time.Duration(n) * time.Millisecond).UnixMilli(),
		Value:  float64(n) / 8,
		Note:   strings.Repeat("x", size),
	}
}

// produce writes made-up records, to each partition in turn, from the n-th of each
// on.
func produce(ctx context.Context, o options, parts int32, from, count int64) error {
	c, err := kgo.NewClient(append(o.kafka(), kgo.DefaultProduceTopic(o.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(20_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()))...) // as the notes would shrink to nothing
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for i := range count {
		part := int32(i % int64(parts))
		value, err := json.Marshal(madeUp(part, from+i/int64(parts), o.size))
		if err != nil {
			return err
		}
		c.Produce(ctx, &kgo.Record{Partition: part, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(fmt.Errorf("producing to %s: %w", o.topic, err))
			}
		})
	}
	if err := c.Flush(ctx); err != nil {
		return context.Cause(ctx)
	}
	return context.Cause(ctx)
}
