package throttleotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// What counts and logs the decisions about requests, and one of them.
type (
	decisions = admit.Counter
	event     = admit.Event
)

var logDecisions = admit.Log

// login admits 3 requests an hour from each address.
func login(on func(event)) http.Handler {
	return &throttlehttp.Handler{Control: &admit.Control{Limit: perHour, Name: "login", OnEvent: on}}
}

const ms = time.Millisecond

var (
	errBoom = errors.New("boom")
	perHour = limit.Limit{Count: 3, Period: time.Hour}
)

// world is one of each part, in a bubble.
type world struct {
	calls    throttle.Counter
	throttle throttle.Throttle
	shared   throttle.Throttle // with a Fleet
	group    throttle.Group
	requests decisions
	guard    store.Guard
	leases   store.Leases
	inFlight store.InFlight
	queue    admit.Queue
	shedder  admit.Shedder
	rules    rules.Source
	redis    throttleredis.Store
	sql      throttlesql.Store

	background sync.WaitGroup
}

// register registers all of w.
func (w *world) register(t *testing.T, m *Metrics) {
	t.Helper()
	err := errors.Join(
		m.Calls("billing", &w.calls), m.Throttle("billing", &w.throttle), m.Throttle("shared", &w.shared), m.Group("hosts", &w.group),
		m.Requests("api", &w.requests), m.Guard("redis", &w.guard), m.Leases("hot", &w.leases),
		m.InFlight("exports", &w.inFlight), m.Queue("mail", &w.queue), m.Shedder("api", &w.shedder),
		m.Rules("api", &w.rules), m.Redis("redis", &w.redis), m.SQL("postgres", &w.sql),
		m.Build(Build{"v1.2.3", "go1.26"}), m.Config("rules", func() Config { return Config{"v7", true, 90 * time.Second} }),
		m.Quota("envoy", func() Quota { return Quota{3, 70, 40, 900, 100, 80, 20, 5, 2, 1} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	onEvent, err := m.Latency("api")
	if err != nil {
		t.Fatal(err)
	}
	onEvent(event{Verdict: admit.Admitted, Took: 30 * time.Microsecond})
	for v := range admit.Keyless + 2 { // the last is no verdict
		onEvent(event{Verdict: v, Took: 3 * ms})
	}
}

// busy lets traffic go through all parts; what runs on ends with ctx.
func (w *world) busy(t *testing.T, ctx context.Context) {
	t.Helper()
	w.caller(t, ctx)
	w.stores(t)
	w.owner(t, ctx)
	w.semaphore()
}

// caller makes 4 calls of 5 tries, and has then one in flight and one waiting.
func (w *world) caller(t *testing.T, ctx context.Context) {
	t.Helper()
	w.throttle.OnEvent, w.throttle.Retries, w.throttle.MaxInFlight = w.calls.OnEvent, -1, 1
	w.throttle.Control = &pace.Fixed{Rate: 40, Burst: 10}
	ends := []error{nil, throttle.Throttled(errBoom, time.Second), nil, throttle.Failed(errBoom), throttle.Ignore(errBoom)}
	for range 4 {
		_ = w.throttle.Do(ctx, func(context.Context) error {
			time.Sleep(10 * ms)
			end := ends[0]
			ends = ends[1:]
			return end
		})
	}
	if len(ends) > 0 {
		t.Fatalf("%d tries were not made", len(ends))
	}
	for range 2 {
		w.background.Go(func() {
			_ = w.throttle.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
	}
	w.shared.Fleet = throttle.Fleet{Store: new(memory.Store), Key: "billing", Limit: limit.Limit{Count: 100, Period: time.Second}}
	if err := w.shared.Do(ctx, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	w.group.Enter("a.example.com").Leave()
	time.Sleep(time.Second)
}

// stores has a Store decide twice, be late once and fail 5 times, so that the
// Guard opens, as Redis is full; and 100 requests for a hot key.
func (w *world) stores(t *testing.T) {
	t.Helper()
	take := func(s store.Store, key string, l limit.Limit) {
		if _, err := store.Take(t.Context(), s, key, l, 1); err != nil {
			t.Fatal(err)
		}
	}
	w.redis.Do = func(context.Context, ...any) (any, error) {
		return nil, errors.New("OOM command not allowed when used memory > 'maxmemory'.")
	}
	calls := 0
	w.guard.Timeout = 20 * ms
	w.guard.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		switch calls++; {
		case calls <= 2:
			return true, nil
		case calls == 3:
			time.Sleep(30 * ms)
			return true, nil
		}
		return w.redis.Take(ctx, a, d)
	})
	for range 9 {
		take(&w.guard, "a", perHour)
		time.Sleep(20 * ms)
	}
	w.leases.Store = new(memory.Store)
	for range 100 {
		take(&w.leases, "hot", limit.Limit{Count: 1000, Period: time.Second})
		time.Sleep(ms)
	}
}

// semaphore has 3 Holds of 2 keys, the first of which expires before the last,
// and refuses a third key.
func (w *world) semaphore() {
	w.inFlight.MaxKeys, w.inFlight.MaxAge = 2, time.Minute
	w.inFlight.Acquire(store.Count{Key: "a", Max: 2})
	time.Sleep(time.Minute)
	w.inFlight.Acquire(store.Count{Key: "a", Max: 2}, store.Count{Key: "b", Max: 2})
	w.inFlight.Acquire(store.Count{Key: "b", Max: 2})
	w.inFlight.Acquire(store.Count{Key: "c", Max: 2})
}

// owner has a Shedder with room for one, which takes 30 ms, and then lasts; a
// caller in line; rules that come, and then do not; and some decisions.
func (w *world) owner(t *testing.T, ctx context.Context) {
	t.Helper()
	w.shedder.MaxInFlight, w.shedder.MaxWait = 1, -1
	pass, err := w.shedder.Acquire(ctx, load.High)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.shedder.Acquire(ctx, load.Low); err == nil {
		t.Fatal("the Shedder has room for two")
	}
	time.Sleep(30 * ms)
	pass.Release()
	if _, err = w.shedder.Acquire(ctx, 0); err != nil {
		t.Fatal(err)
	}
	w.background.Go(func() { _, _ = w.queue.Wait(ctx, "mail", limit.Limit{Count: 1, Period: time.Hour}, 1) })
	w.background.Go(func() { _, _ = w.queue.Wait(ctx, "mail", limit.Limit{Count: 1, Period: time.Hour}, 1) })

	texts := []string{`{"rules": [{"name": "login", "key": "address", "limits": "3/h"}]}`, "none"}
	w.rules.Fetch = func(context.Context, string) (data []byte, tag string, err error) {
		data, texts = []byte(texts[0]), texts[1:]
		return data, "", nil
	}
	if err := w.rules.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(90 * time.Second)
	if err := w.rules.Refresh(ctx); err == nil {
		t.Fatal("rules that are none were taken")
	}
	w.decide()
}

// decide has 7 requests decided, 2 of them refused, 1 of these answered with less.
func (w *world) decide() {
	for _, a := range []rules.Answer{
		{OK: true, Reason: rules.Unlimited},
		{OK: true, Reason: rules.Within, Rule: "login"},
		{OK: true, Reason: rules.Within, Rule: "login"},
		{OK: true, Reason: rules.Within, Rule: "login", Shadow: []string{"new", "newer"}},
		{OK: true, Reason: rules.Within, Rule: "login", ShadowErr: errBoom},
		{Reason: rules.Over, Rule: "login"},
	} {
		w.requests.OnEvent(event{Verdict: admit.Admitted, Answer: a})
	}
	w.requests.OnEvent(event{Verdict: admit.Limited, Answer: rules.Answer{Reason: rules.Busy, Rule: "exports"}, Degraded: true, RefundErr: errBoom})
}

// inBubble runs f with a busy world, registered in m, in a bubble, and ends it.
func inBubble(t *testing.T, m *Metrics, f func(w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := new(world)
		defer func() {
			cancel()
			w.background.Wait()
		}()
		w.busy(t, ctx)
		w.register(t, m)
		synctest.Wait()
		f(w)
	})
}

// collect returns what r collects, by the name of the metric.
func collect(t *testing.T, r metric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	metrics := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		if s.Scope.Name != Scope {
			t.Errorf("metrics of the scope %q, want %q", s.Scope.Name, Scope)
		}
		for _, m := range s.Metrics {
			metrics[m.Name] = m
		}
	}
	return metrics
}

// point is a value of a metric.
type point struct {
	attrs attribute.Set
	value float64
}

// points returns the kind and the values of a metric.
func points(m metricdata.Metrics) (kind string, all []point) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		return sumKind(d.IsMonotonic), pointsOf(d.DataPoints)
	case metricdata.Sum[float64]:
		return sumKind(d.IsMonotonic), pointsOf(d.DataPoints)
	case metricdata.Gauge[float64]:
		return "Gauge", pointsOf(d.DataPoints)
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			all = append(all, point{p.Attributes, p.Sum})
		}
		return "Histogram", all
	}
	return fmt.Sprintf("%T", m.Data), nil
}

func sumKind(monotonic bool) string {
	if monotonic {
		return "Counter"
	}
	return "UpDownCounter"
}

func pointsOf[N int64 | float64](of []metricdata.DataPoint[N]) (all []point) {
	for _, p := range of {
		all = append(all, point{p.Attributes, float64(p.Value)})
	}
	return all
}

// lines writes metrics one value a line, sorted:
// name kind unit {attribute=value} value.
func lines(metrics map[string]metricdata.Metrics) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		kind, values := points(metrics[name])
		var of []string
		for _, p := range values {
			attrs := strings.ReplaceAll(p.attrs.Encoded(attribute.DefaultEncoder()), "throttle.", "")
			of = append(of, fmt.Sprintf("%s %s %s {%s} %.4g", name, kind, metrics[name].Unit, attrs, p.value))
		}
		slices.Sort(of)
		all = append(all, of...)
	}
	return all
}
