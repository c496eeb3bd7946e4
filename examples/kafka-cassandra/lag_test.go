package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/worker"
)

func TestWish(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		lag             int64
		arriving        float64
		within, latency time.Duration
		most, want      int
	}{
		{lag: 0, arriving: 0, within: 5 * time.Second, latency: 10 * ms, most: 512, want: 4},
		{lag: 0, arriving: 1000, within: 5 * time.Second, latency: 10 * ms, most: 512, want: 20},
		{lag: 50_000, arriving: 1000, within: 5 * time.Second, latency: 10 * ms, most: 512, want: 220},
		{lag: 1e15, arriving: 1e9, within: 5 * time.Second, latency: time.Hour, most: 512, want: 512},
		{lag: 50_000, arriving: 0, within: 0, latency: 10 * ms, most: 512, want: 512},   // as soon as possible
		{lag: 50_000, arriving: 0, within: time.Second, latency: 0, most: 64, want: 64}, // not known yet
		{lag: -5, arriving: 0, within: time.Second, latency: ms, most: 512, want: 4},
		{lag: 0, arriving: 0, within: time.Second, latency: ms, most: 2, want: 4},
	} {
		if got := wish(c.lag, c.arriving, c.within, c.latency, c.most); got != c.want {
			t.Errorf("wish(%d, %v, %v, %v, %d) = %d, want %d", c.lag, c.arriving, c.within, c.latency, c.most, got, c.want)
		}
	}
}

// TestLag: a lag asks for more, and gets no more than the database bears; where
// there is little, less than that is in flight.
func TestLag(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{Service: 20 * time.Millisecond, Width: 10}) // 500/s
		s.begin(t, "lag").stop()
		s.produce(t, "lag", 1200)
		ours := s.begin(t, "lag", "-within", "2s").run(t)
		flows(t, ours.pipeline, 1)
		time.Sleep(5 * time.Second)
		behind, _, _ := ours.lag.get()
		if c := counted(ours.pipeline); behind < 2000 || c.limit > 60 || s.db.Stats().Most > 60 {
			t.Errorf("lag %d: limit %d, at most %d at the database; want about what 10 writes at once need", behind, c.limit, s.db.Stats().Most)
		}
		var b bytes.Buffer
		ours.writeMetrics(&b)
		for _, want := range []string{`kafka_cassandra_lag_records{topic="lag",partition="3"} `, "kafka_cassandra_in_flight ", "kafka_cassandra_rows_total 2", `kafka_cassandra_bound{by="limit"} 1`} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("metrics lack %q:\n%s", want, &b)
			}
		}
		await(t, "the lag is gone", time.Minute, func() bool { n, _, known := ours.lag.get(); return known && n == 0 })
		time.Sleep(2 * time.Second)
		if n := ours.limit(); n != least {
			t.Errorf("without lag %d may be in flight, want %d", n, least)
		}
	})
}

// held is a reader of the metrics, at whose pace nothing may wait.
type held struct {
	*httptest.ResponseRecorder
	lag    *lag
	locked bool
}

func (h *held) Write(b []byte) (int, error) {
	if h.lag.mu.TryLock() {
		h.lag.mu.Unlock()
	} else {
		h.locked = true
	}
	return h.ResponseRecorder.Write(b)
}

// TestMetrics: dead letters are no rows, and no lock is held while the reader reads.
func TestMetrics(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &pipeline{throttle: new(throttle.Throttle)}
		p.worker = &worker.Worker[*kgo.Record]{
			Handle: func(_ context.Context, r *kgo.Record) error { return json.Unmarshal(r.Value, new(reading)) },
			Dead:   func(context.Context, *kgo.Record, error) error { return nil },
		}
		p.lag.set(time.Now(), map[int32]int64{0: 7}, 7)
		a := p.worker.Assign(t.Context(), "", 0)
		defer a.Lost()
		good, bad := &kgo.Record{Value: []byte("{}")}, &kgo.Record{Value: []byte("no reading")}
		a.Add(good, bad, good, good, bad)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := &held{ResponseRecorder: httptest.NewRecorder(), lag: &p.lag}
		p.metrics().ServeHTTP(h, nil)
		for _, want := range []string{"kafka_cassandra_rows_total 3\n", "kafka_cassandra_dead_total 2\n", "kafka_cassandra_lag_records{topic=\"\",partition=\"0\"} 7\n"} {
			if !strings.Contains(h.Body.String(), want) {
				t.Errorf("metrics lack %q:\n%s", want, h.Body)
			}
		}
		if c := counted(p); c.done != 3 {
			t.Errorf("%d counted, want 3", c.done)
		}
		if h.locked {
			t.Error("the lag is locked while the reader reads")
		}
	})
}

func TestLatencies(t *testing.T) {
	var l latencies
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	s := l.take()
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{50, 500 * time.Millisecond}, {99, 990 * time.Millisecond}, {100, time.Second}} {
		if got := s.percentile(c.p); got < c.want || got > c.want*9/8 {
			t.Errorf("percentile %v = %v, want %v to an eighth", c.p, got, c.want)
		}
	}
	if again := l.take(); again.n != 0 || again.percentile(50) != 0 {
		t.Errorf("taken twice: %d left", again.n)
	}
	l.add(-1)
	l.add(1<<63 - 1)
}
