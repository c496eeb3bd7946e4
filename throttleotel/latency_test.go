package throttleotel

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/throttle-go/throttle/admit"
)

// TestLatencyBuckets: a decision counts in the bucket of its duration, under its
// verdict, and recording one allocates nothing.
func TestLatencyBuckets(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	control := admit.Control{}
	var err error
	if control.OnEvent, err = m.Latency("api"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Latency("api"); err == nil {
		t.Error("one name was given twice")
	}
	a, err := control.Begin(t.Context(), admit.Request{Key: "a"})
	if err != nil || a.Took <= 0 {
		t.Fatalf("the decision took %v, error %v", a.Took, err)
	}
	a.Done()
	for _, took := range []time.Duration{9 * time.Microsecond, 90 * time.Microsecond, time.Minute} {
		control.OnEvent(admit.Event{Verdict: admit.Limited, Took: took})
	}
	data := collect(t, reader)["throttle.server.decision.duration"].Data.(metricdata.Histogram[float64])
	got := map[string]metricdata.HistogramDataPoint[float64]{}
	for _, p := range data.DataPoints {
		verdict, _ := p.Attributes.Value(keyVerdict)
		got[verdict.AsString()] = p
	}
	if n := got["admitted"].Count; n != 1 {
		t.Errorf("%d admitted were recorded, want 1", n)
	}
	counts := got["limited"].BucketCounts
	if len(counts) != len(bounds)+1 || counts[0] != 1 || counts[3] != 1 || counts[len(bounds)] != 1 {
		t.Errorf("9 µs, 90 µs and 1 min are in the buckets %v of %v", counts, bounds)
	}
	if n := testing.AllocsPerRun(100, func() { control.OnEvent(admit.Event{Verdict: admit.Admitted, Took: time.Millisecond}) }); n > 0 {
		t.Errorf("recording a decision allocates %v times", n)
	}
}

func BenchmarkLatency(b *testing.B) {
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))}
	onEvent, err := m.Latency("api")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		onEvent(admit.Event{Verdict: admit.Admitted, Took: time.Millisecond})
	}
}
