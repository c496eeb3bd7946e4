// Package throttleotel exports the Stats of the parts of throttle as
// OpenTelemetry metrics, and by the OpenTelemetry exporter for Prometheus to
// Prometheus:
//
//	var metrics throttleotel.Metrics
//	err := errors.Join(
//		metrics.Calls("billing", &counter),    // of Throttle.OnEvent
//		metrics.Throttle("billing", &billing), // a caller's queue and rate
//		metrics.Requests("api", &decisions),   // of Control.OnEvent
//		metrics.Guard("redis", guard),         // the circuit breaker
//		metrics.Shedder("api", &shedder),      // load shedding
//	)
//
// Each method but Latency registers asynchronous instruments: they read the Stats
// when a reader collects, and cost a request nothing. docs/observability.md lists every
// metric, graphs to watch and alarms; packages throttle and admit have the
// functions Log, which write events to a log/slog Logger.
package throttleotel
