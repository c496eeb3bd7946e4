package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// least is how many writes may be in flight at any time, however small the lag.
const least = 4

// wish is how many writes should be in flight to have the lag gone within a
// time, by Little's law: the rate that is needed times the latency of a write,
// and as much again, as neither is steady. It is a wish for more, up to most, and
// no more: it becomes Throttle.MaxInFlight, under which the learnt limit and the
// learnt pace hold on. A lag that grows because the database is slow must not
// make it slower.
func wish(lag int64, arriving float64, within, latency time.Duration, most int) int {
	if within <= 0 || latency <= 0 {
		return most
	}
	rate := arriving + float64(max(lag, 0))/within.Seconds()
	n := math.Ceil(2 * rate * latency.Seconds())
	return int(min(max(n, least), float64(max(most, least))))
}

// lag is how far behind the group is.
type lag struct {
	mu       sync.Mutex
	known    bool
	behind   int64           // records that are not committed
	parts    map[int32]int64 // the same of each partition
	arriving float64         // records a second that are produced
	ends     int64
	at       time.Time
}

// topicGone is a topic that the cluster does not know any more.
type topicGone struct{ topic string }

func (e *topicGone) Error() string {
	return fmt.Sprintf("topic %s is not there any more: it was deleted, or renamed; create it and start again: what was committed stays for as long as the group is kept, what was fetched and not written was not committed", e.topic)
}

// ask asks the broker for the ends and the committed offsets of all partitions.
func (l *lag) ask(ctx context.Context, c *kadm.Client, group, topic string) error {
	ends, err := c.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("asking Kafka for the ends of %s: %w", topic, err)
	}
	starts, err := c.ListStartOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("asking Kafka for the starts of %s: %w", topic, err)
	}
	committed, err := c.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // which is as if nothing were committed
		return fmt.Errorf("asking Kafka for the offsets of group %s: %w", group, err)
	}
	parts, sum := map[int32]int64{}, int64(0)
	for number, end := range ends[topic] {
		if end.Err == kerr.UnknownTopicOrPartition {
			return &topicGone{topic}
		}
		if end.Err != nil {
			return fmt.Errorf("asking Kafka for the end of %s[%d]: %w", topic, number, end.Err)
		}
		from := starts[topic][number].Offset
		if at, ok := committed.Lookup(topic, number); ok {
			from = max(from, at.At)
		}
		parts[number] = max(0, end.Offset-from)
		sum += end.Offset
	}
	if len(parts) == 0 {
		return &topicGone{topic}
	}
	l.set(time.Now(), parts, sum)
	return nil
}

// set keeps what was answered. ends is the sum of the ends of all partitions.
func (l *lag) set(now time.Time, parts map[int32]int64, ends int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took := now.Sub(l.at).Seconds(); l.known && took > 0 {
		l.arriving = max(0, float64(ends-l.ends)/took)
	}
	l.known, l.at, l.ends, l.parts, l.behind = true, now, ends, parts, 0
	for _, n := range parts {
		l.behind += n
	}
}

func (l *lag) get() (behind int64, arriving float64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind, l.arriving, l.known
}

// metrics serves what an alarm needs, as text for Prometheus. The lag is that of
// the group: each of its processes tells the same.
func (p *pipeline) metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer // a reader that is slow must not hold the lock
		p.writeMetrics(&b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(b.Bytes())
	})
}

func (p *pipeline) writeMetrics(w *bytes.Buffer) {
	p.lag.mu.Lock()
	fmt.Fprintln(w, "# TYPE kafka_cassandra_lag_records gauge")
	for number, n := range p.lag.parts {
		fmt.Fprintf(w, "kafka_cassandra_lag_records{topic=%q,partition=\"%d\"} %d\n", p.o.topic, number, n)
	}
	p.lag.mu.Unlock()
	s := p.worker.Stats()
	for _, m := range []struct {
		name, kind string
		value      int64
	}{
		{"in_flight", "gauge", int64(s.InFlight)},
		{"limit", "gauge", int64(p.limit())},
		{"waiting", "gauge", int64(s.Waiting)},
		{"resting", "gauge", int64(s.Resting)},
		{"rows_total", "counter", s.Done},
		{"dead_total", "counter", s.Dead},
		{"refused_total", "counter", s.Throttled},
		{"failed_total", "counter", s.Failed},
		{"timed_out_total", "counter", s.TimedOut},
	} {
		fmt.Fprintf(w, "# TYPE kafka_cassandra_%s %s\nkafka_cassandra_%s %d\n", m.name, m.kind, m.name, m.value)
	}
	fmt.Fprintf(w, "# TYPE kafka_cassandra_bound gauge\nkafka_cassandra_bound{by=%q} 1\n", s.Bound)
}
