package throttleotel

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/throttle-go/throttle"
)

// prometheusOf is a Metrics that a Prometheus reads, and what answers it.
func prometheusOf(t *testing.T) (*Metrics, http.Handler) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	return &Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))},
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// scrapeBusy is what a busy world answers to Prometheus.
func scrapeBusy(t *testing.T) string {
	t.Helper()
	m, handler := prometheusOf(t)
	answer := httptest.NewRecorder()
	inBubble(t, m, func(*world) {
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	})
	if answer.Code != http.StatusOK {
		t.Fatalf("a scrape is answered by %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// TestScrape: a Prometheus that asks by HTTP, in its text format or in
// OpenMetrics, gets what is counted by then.
func TestScrape(t *testing.T) {
	m, handler := prometheusOf(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	var calls throttle.Counter
	if err := m.Calls("billing", &calls); err != nil {
		t.Fatal(err)
	}
	for i, accept := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"} {
		calls.OnEvent(throttle.Event{Kind: throttle.Starts, Wait: 1500 * ms})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := regexp.MustCompile(fmt.Sprintf(`(?m)^throttle_client_wait_time_seconds_total\{.*throttle_name="billing"\} %g$`, 1.5*float64(i+1)))
		if err != nil || !want.Match(body) {
			t.Errorf("a scrape as %s: %v\n%s\nwant %v", accept, err, body, want)
		}
	}
}
