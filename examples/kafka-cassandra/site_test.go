package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// asProgram makes the test binary the program, with the arguments it is given, so
// that tests can kill one.
const asProgram = "KAFKA_CASSANDRA_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(command(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait most of the time
		panic(err)
	}
	os.Exit(rig.Main(m))
}

// A site is a Kafka and a Cassandra, real ones or stand-ins.
type site struct {
	brokers, cassandra string
	freeze, thaw, kill func() // of Cassandra
	restart            func(t *testing.T)
	// rows returns which readings of each partition are there, of so many.
	rows  func(t *testing.T, topic string, each int64) [partitions]map[int64]bool
	db    *standin.Database // nil: a real one
	dial  dialer            // nil: the usual
	lossy int               // every so many answers to a write are lost; 0: none
}

// standins starts both in this process, on a network of their own, for a
// synctest bubble: time is virtual, so a busy machine changes nothing.
func standins(t *testing.T, k standin.Knobs) *site {
	t.Helper()
	// Goroutines of the drivers that rest before they connect again end after it.
	t.Cleanup(func() { time.Sleep(time.Minute) })
	network := new(standin.Network)
	addr, stop, err := standin.Kafka(network, partitions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	d, err := standin.Start(network, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return &site{
		brokers: addr, cassandra: d.Addr, db: d, dial: standin.Dial(network),
		freeze: d.Freeze, thaw: d.Thaw, kill: d.Stop,
		restart: func(t *testing.T) {
			if err := d.Restart(); err != nil {
				t.Fatal(err)
			}
		},
		rows: func(_ *testing.T, _ string, each int64) (found [partitions]map[int64]bool) {
			for part := range found {
				found[part] = map[int64]bool{}
				for n := range each {
					r := madeUp(int32(part), n, 120)
					if _, ok := d.Row(standin.Key{Device: r.Device, At: time.UnixMilli(r.At)}); ok {
						found[part][n] = true
					}
				}
			}
			return found
		},
	}
}

// slow lets Cassandra work for a fifth of the time only, until fast.
func (s *site) slow() (fast func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			s.freeze()
			time.Sleep(40 * time.Millisecond)
			s.thaw()
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// args are the flags of a program at this site, for a topic and table of their
// own; further ones win.
func (s *site) args(topic string, more ...string) []string {
	return append([]string{
		"-brokers", s.brokers, "-cassandra", s.cassandra, "-topic", topic, "-group", topic, "-create",
		"-table", "demo." + strings.ReplaceAll(topic, "-", "_"), // of its own
		"-session", "6s", "-within", "0",
	}, more...)
}

// a job is a pipeline that runs in a test.
type job struct {
	*pipeline
	log   *syncBuffer
	taken latencies    // of all rows since it was last looked at
	stop  func() error // ends it as a signal does
	ended chan struct{}
	err   error
}

// syncBuffer is a log that can be read meanwhile.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// begin opens a pipeline; it does not run yet.
func (s *site) begin(t *testing.T, topic string, more ...string) *job {
	t.Helper()
	o := s.options(t, topic, more...)
	log := new(syncBuffer)
	p, err := open(t.Context(), o, log)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{pipeline: p, log: log, ended: make(chan struct{}), stop: func() error { p.close(); return nil }}
	p.worker.OnEvent = func(e worker.Event) {
		if e.Kind == worker.Ends && e.Verdict == pace.Served {
			j.taken.add(e.Took)
		}
		p.event(e)
	}
	return j
}

// run lets it run until stop.
func (j *job) run(t *testing.T) *job {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(j.ended)
		j.err = j.pipeline.run(ctx)
	}()
	j.stop = sync.OnceValue(func() error {
		cancel()
		<-j.ended
		j.close()
		return j.err
	})
	t.Cleanup(func() {
		if err := j.stop(); err != nil && !t.Failed() {
			t.Logf("%s ended: %v", j.o.topic, err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", j.o.topic, j.log)
		}
	})
	return j
}

// options are those of args.
func (s *site) options(t *testing.T, topic string, more ...string) options {
	t.Helper()
	o, err := parse(s.args(topic, more...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.dial = s.dial; s.lossy > 0 {
		o.dial, o.protocol = s.losing(), 4 // whose frames can be told apart
	}
	return o
}

// produce writes as many made-up readings to each partition of a topic.
func (s *site) produce(t *testing.T, topic string, count int64, more ...string) {
	t.Helper()
	if err := produce(t.Context(), s.options(t, topic, more...), partitions, 0, count*partitions); err != nil {
		t.Fatal(err)
	}
}

// client is a client of Kafka.
func (s *site) client(t *testing.T, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	o := s.options(t, "none")
	c, err := kgo.NewClient(append(o.kafka(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send writes one value to a partition.
func (s *site) send(t *testing.T, topic string, partition int32, value string) {
	t.Helper()
	c := s.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed are the offsets of a group.
func (s *site) committed(t *testing.T, group string) map[int32]int64 {
	t.Helper()
	c := s.client(t)
	defer c.Close()
	all, err := kadm.NewClient(c).FetchOffsets(t.Context(), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	at := map[int32]int64{}
	all.Each(func(o kadm.OffsetResponse) { at[o.Partition] = o.At })
	return at
}

// missing counts the rows below what is committed that are not there, those that
// are there above it, and what is committed in all.
func (s *site) missing(t *testing.T, topic string, each int64) (missing, above, committed int64) {
	t.Helper()
	at := s.committed(t, topic) // before the rows, which become more meanwhile
	for part, found := range s.rows(t, topic, each) {
		next := at[int32(part)]
		committed += next
		for n := range each {
			switch {
			case n < next && !found[n]:
				missing++
			case n >= next && found[n]:
				above++
			}
		}
	}
	return missing, above, committed
}

// count is what a pipeline has done at a time.
type count struct {
	at                               time.Time
	done, throttled, failed, timeout int64
	inFlight, limit, gap             int
	tries                            int64
}

// counted reads the counts of a pipeline.
func counted(p *pipeline) count {
	s := p.worker.Stats()
	c := count{
		at: time.Now(), done: s.Done, throttled: s.Throttled, failed: s.Failed, timeout: s.TimedOut,
		inFlight: s.InFlight, limit: p.limit(), tries: s.Served + s.Throttled + s.Failed + s.Ignored,
	}
	for _, a := range s.Assignments {
		c.gap = max(c.gap, a.Gap)
	}
	return c
}

// over counts a pipeline every so often for a while.
func over(t *testing.T, p *pipeline, every, long time.Duration) (all []count) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	all = append(all, counted(p))
	for end := time.Now().Add(long); time.Now().Before(end); {
		<-tick.C
		all = append(all, counted(p))
	}
	return all
}

// rate is how many were done a second between two counts.
func rate(a, b count) float64 { return float64(b.done-a.done) / b.at.Sub(a.at).Seconds() }

// await waits until f, for so long.
func await(t *testing.T, what string, long time.Duration, f func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !f() {
		if time.Since(began) > long {
			t.Fatalf("not within %v: %s", long, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// flows waits until a pipeline has written so many rows.
func flows(t *testing.T, p *pipeline, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("%s has %d rows", p.o.topic, n), 30*time.Second, func() bool { return p.worker.Stats().Done >= n })
}
