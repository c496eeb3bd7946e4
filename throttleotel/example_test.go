package throttleotel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/throttleotel"
)

type service struct {
	calls   throttle.Counter
	billing throttle.Throttle // what the service calls
	shedder admit.Shedder     // what protects the service
}

// export serves the metrics of s to Prometheus.
func (s *service) export(mux *http.ServeMux) error {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return err
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	s.billing.OnEvent = s.calls.OnEvent
	metrics := throttleotel.Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	return errors.Join(
		metrics.Calls("billing", &s.calls),
		metrics.Throttle("billing", &s.billing),
		metrics.Shedder("api", &s.shedder),
	)
}

// A service serves its metrics to Prometheus.
func Example() {
	var s service
	mux := http.NewServeMux()
	if err := s.export(mux); err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(mux)
	defer server.Close()

	for range 3 {
		_ = s.billing.Do(context.Background(), func(context.Context) error { return nil })
	}
	resp, err := http.Get(server.URL + "/metrics")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); strings.Contains(line, `verdict="served"`) {
			name, rest, _ := strings.Cut(line, "{")
			_, value, _ := strings.Cut(rest, "} ")
			fmt.Println(name, value)
		}
	}
	// Output: throttle_client_tries_total 3
}
