package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"net/url"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleotel"
)

// metrics are the instruments of the program, read by Prometheus and pushed by
// OTLP.
type metrics struct {
	throttleotel.Metrics
	handler  http.Handler
	ours     prometheus.Gatherer // those of throttle, without those of the process
	provider *metric.MeterProvider
}

// measure makes the metrics of s.
func (s *server) measure(ctx context.Context) error {
	process, registry := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return err
	}
	options := []metric.Option{metric.WithReader(reader), metric.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "throttle"), attribute.String("service.version", s.c.Build),
		attribute.String("service.instance.id", s.c.Instance)))}
	if s.c.OTLP != "" {
		push, err := s.pusher(ctx)
		if err != nil {
			return err
		}
		options = append(options, metric.WithReader(push))
	}
	s.metrics.provider = metric.NewMeterProvider(options...)
	s.metrics.ours = registry
	s.metrics.Provider = s.metrics.provider
	s.metrics.handler = promhttp.HandlerFor(prometheus.Gatherers{process, registry}, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	return s.observe()
}

// pusher pushes metrics to a collector.
func (s *server) pusher(ctx context.Context) (metric.Reader, error) {
	u, err := url.Parse(s.c.OTLP)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage.Error("admin: otlp must be like http://collector:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics"
	}
	push, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(u.String()), otlpmetrichttp.WithTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if s.c.Log != nil && s.pushes.May(time.Now()) {
			s.c.Log.Warn("metrics were not pushed", "otlp", words.URL(s.c.OTLP), "err", words.OneLine(err.Error()))
		}
	}))
	every := s.c.OTLPEvery
	if every <= 0 {
		every = time.Minute
	}
	return metric.NewPeriodicReader(push, metric.WithInterval(every), metric.WithTimeout(10*time.Second)), nil
}

// observe registers all parts.
func (s *server) observe() error {
	m := &s.metrics.Metrics
	errs := []error{m.Build(throttleotel.Build{Version: s.c.Build, Go: runtime.Version()})}
	if s.c.Counter != nil {
		errs = append(errs, m.Requests("serve", s.c.Counter))
	}
	if s.c.Guard != nil {
		errs = append(errs, m.Guard("store", s.c.Guard))
	}
	for _, source := range s.c.Sources {
		errs = append(errs, m.Rules(source.Name, source.Source))
	}
	if s.c.Rules != nil {
		errs = append(errs, m.Config("rules", s.configuration))
	}
	if s.c.Observe != nil {
		errs = append(errs, s.c.Observe(m))
	}
	return errors.Join(errs...)
}

// configuration is what the metrics say of the rules.
func (s *server) configuration() throttleotel.Config {
	c := throttleotel.Config{OK: true}
	if v := s.c.Rules.Load(); v != nil {
		c.Version = v.Version()
	}
	now := time.Now()
	for _, status := range s.statuses() {
		c.OK = c.OK && status.Err == nil
		c.Age = max(c.Age, status.Age(now))
	}
	return c
}

// statuses are those of all sources of rules, the overlay included.
func (s *server) statuses() (all []rules.Status) {
	for _, source := range s.c.Sources {
		all = append(all, source.Status())
	}
	if s.c.Stack != nil && s.c.Stack.Shared != nil {
		all = append(all, s.c.Stack.Status())
	}
	return all
}

// profiles serves /debug/pprof/.
func (s *server) profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
