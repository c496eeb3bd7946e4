package throttleotel

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
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

func TestZ(t *testing.T) { t.Log(scrapeBusy(t)) }
