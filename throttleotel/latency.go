package throttleotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/throttle-go/throttle/admit"
)

// bounds are the buckets of the histogram of decisions, in seconds: from a
// decision in memory to a Store that is late.
var bounds = []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1}

// Latency observes how long decisions took, which is the latency that an
// [admit.Control] adds to a request. Call the function that it returns with each
// event, as the OnEvent of Controls or from theirs. It is the one synchronous
// instrument, see BenchmarkLatency for its cost. Unregister does not end it, and
// its name stays in use. If it fails, the function does nothing.
func (m *Metrics) Latency(name string) (onEvent func(admit.Event), err error) {
	nothing := func(admit.Event) {}
	p := part{"Latency", name}
	if err := m.reserve(p); err != nil {
		return nothing, err
	}
	h, err := m.meter().Float64Histogram("throttle.server.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that a decision took, with the Store and the wait for room: the latency added to a request."),
		metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.parts, p)
		return nothing, fmt.Errorf("throttleotel: the Latency %q: %w", name, err)
	}
	var with [admit.Keyless + 1][]metric.RecordOption // made once
	for v := range with {
		o := observer{}
		if name != "" {
			o.attrs = append(o.attrs, keyName.String(name))
		}
		with[v] = []metric.RecordOption{o.set(keyVerdict.String(admit.Verdict(v).String()))}
	}
	return func(e admit.Event) {
		if int(e.Verdict) < len(with) {
			h.Record(context.Background(), e.Took.Seconds(), with[e.Verdict]...)
		}
	}, nil
}
