package throttleotel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// collected is what busy leaves, see there.
const collected = `
throttle.build.info UpDownCounter  {go=go1.26,version=v1.2.3} 1
throttle.client.fleet.requests Counter {request} {name=shared,outcome=answered} 1
throttle.client.fleet.requests Counter {request} {name=shared,outcome=failed} 0
throttle.client.forecast Gauge s {name=billing} 0
throttle.client.give_ups Counter {call} {name=billing} 1
throttle.client.group.members UpDownCounter {member} {name=hosts} 1
throttle.client.in_flight UpDownCounter {call} {name=billing} 1
throttle.client.in_flight UpDownCounter {call} {name=shared} 0
throttle.client.rate Gauge {call}/s {name=billing} 40
throttle.client.starts Counter {try} {name=billing} 6
throttle.client.tries Counter {try} {name=billing,verdict=failed} 1
throttle.client.tries Counter {try} {name=billing,verdict=ignored} 1
throttle.client.tries Counter {try} {name=billing,verdict=served} 2
throttle.client.tries Counter {try} {name=billing,verdict=throttled} 1
throttle.client.wait.time Counter s {name=billing} 1
throttle.client.waiting UpDownCounter {call} {name=billing} 1
throttle.client.waiting UpDownCounter {call} {name=shared} 0
throttle.client.waits Counter {wait} {name=billing} 2
throttle.config.age Gauge s {name=rules} 90
throttle.config.info UpDownCounter  {name=rules,version=v7} 1
throttle.config.last_reload.successful Gauge  {name=rules} 1
throttle.guard.calls Counter {call} {name=redis,outcome=canceled} 0
throttle.guard.calls Counter {call} {name=redis,outcome=fallback} 7
throttle.guard.calls Counter {call} {name=redis,outcome=store} 2
throttle.guard.failures Counter {call} {name=redis,reason=error} 5
throttle.guard.failures Counter {call} {name=redis,reason=late} 1
throttle.guard.pending UpDownCounter {call} {name=redis} 0
throttle.guard.state UpDownCounter {guard} {name=redis,state=away} 1
throttle.guard.state UpDownCounter {guard} {name=redis,state=closed} 0
throttle.guard.state UpDownCounter {guard} {name=redis,state=slow} 0
throttle.in_flight.expired_holds Counter {hold} {name=exports} 1
throttle.in_flight.holds UpDownCounter {hold} {name=exports} 2
throttle.in_flight.keys UpDownCounter {key} {name=exports} 2
throttle.in_flight.peak_holds Gauge {hold} {name=exports} 2
throttle.in_flight.refused_keys Counter {key} {name=exports} 1
throttle.leases.local_takes Counter {take} {name=hot} 91
throttle.leases.store_calls Counter {call} {name=hot} 9
throttle.queue.waiting UpDownCounter {request} {name=mail} 1
throttle.quota.assignments Counter {assignment} {name=envoy,outcome=abandoned} 5
throttle.quota.assignments Counter {assignment} {name=envoy,outcome=changed} 80
throttle.quota.assignments Counter {assignment} {name=envoy,outcome=renewed} 20
throttle.quota.assignments Counter {assignment} {name=envoy,outcome=unanswered} 2
throttle.quota.buckets UpDownCounter {bucket} {name=envoy} 70
throttle.quota.limits UpDownCounter {limit} {name=envoy} 40
throttle.quota.requests Counter {request} {name=envoy,outcome=admitted} 900
throttle.quota.requests Counter {request} {name=envoy,outcome=refused} 100
throttle.quota.store_errors Counter {report} {name=envoy} 1
throttle.quota.streams UpDownCounter {stream} {name=envoy} 3
throttle.rules.age Gauge s {name=api} 150
throttle.rules.refreshes Counter {refresh} {name=api,outcome=failed} 1
throttle.rules.refreshes Counter {refresh} {name=api,outcome=ok} 1
throttle.rules.swaps Counter {swap} {name=api} 1
throttle.server.decision.duration Histogram s {name=api,verdict=admitted} 0.00303
throttle.server.decision.duration Histogram s {name=api,verdict=denied} 0.003
throttle.server.decision.duration Histogram s {name=api,verdict=keyless} 0.003
throttle.server.decision.duration Histogram s {name=api,verdict=limited} 0.003
throttle.server.decision.duration Histogram s {name=api,verdict=overloaded} 0.003
throttle.server.decision.duration Histogram s {name=api,verdict=undecided} 0.003
throttle.server.failures Counter {call} {name=api,reason=refund-error} 1
throttle.server.failures Counter {call} {name=api,reason=shadow-error} 1
throttle.server.requests Counter {request} {degraded=false,name=api,reason=over,rule=login} 1
throttle.server.requests Counter {request} {degraded=false,name=api,reason=unlimited} 1
throttle.server.requests Counter {request} {degraded=false,name=api,reason=within,rule=login} 4
throttle.server.requests Counter {request} {degraded=true,name=api,reason=busy,rule=exports} 1
throttle.server.shadow_refusals Counter {request} {name=api,rule=newer} 1
throttle.server.shadow_refusals Counter {request} {name=api,rule=new} 1
throttle.shedder.duration Gauge s {name=api} 0.03
throttle.shedder.in_flight UpDownCounter {request} {name=api} 1
throttle.shedder.limit UpDownCounter {request} {name=api} 1
throttle.shedder.peak_waiting Gauge {request} {name=api} 0
throttle.shedder.requests Counter {request} {name=api,outcome=admitted,priority=critical} 0
throttle.shedder.requests Counter {request} {name=api,outcome=admitted,priority=high} 1
throttle.shedder.requests Counter {request} {name=api,outcome=admitted,priority=low} 0
throttle.shedder.requests Counter {request} {name=api,outcome=admitted,priority=normal} 1
throttle.shedder.requests Counter {request} {name=api,outcome=shed,priority=critical} 0
throttle.shedder.requests Counter {request} {name=api,outcome=shed,priority=high} 0
throttle.shedder.requests Counter {request} {name=api,outcome=shed,priority=low} 1
throttle.shedder.requests Counter {request} {name=api,outcome=shed,priority=normal} 0
throttle.shedder.waiting UpDownCounter {request} {name=api} 0
throttle.store.clock.ahead Gauge s {name=postgres} 0
throttle.store.clock.ahead Gauge s {name=redis} 0
throttle.store.full Counter {call} {name=redis} 5
throttle.store.losses Counter {loss} {name=postgres,reason=lost} 0
throttle.store.losses Counter {loss} {name=redis,reason=flushed} 0
throttle.store.losses Counter {loss} {name=redis,reason=replaced} 0
`

// TestMetrics: each instrument has its name, kind, unit and values after some
// traffic of which the numbers are known.
func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	inBubble(t, &m, func(*world) {
		got := lines(collect(t, reader))
		want := strings.Split(strings.TrimSpace(collected), "\n")
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("collected\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// TestZeroMetrics: a zero Metrics uses the global Provider.
func TestZeroMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	var m Metrics
	var calls throttle.Counter
	if err := m.Calls("", &calls); err != nil {
		t.Fatal(err)
	}
	calls.OnEvent(throttle.Event{Kind: throttle.GivesUp})
	got := strings.Join(lines(collect(t, reader)), "\n")
	if want := "throttle.client.give_ups Counter {call} {} 1\n"; !strings.HasPrefix(got, want) {
		t.Errorf("collected %q, want %q first", got, want)
	}
}

func TestRegisterRefuses(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	var calls throttle.Counter
	var guard store.Guard
	if err := errors.Join(m.Calls("a", &calls), m.Guard("a", &guard)); err != nil {
		t.Errorf("one name for two kinds: %v", err)
	}
	wants := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	wants(m.Calls("a", new(throttle.Counter)), `throttleotel: there is a Counter of calls "a" already`)
	wants(m.Calls("b", nil), `throttleotel: the Counter of calls "b" is nil`)
	for i := range maxNames - 1 {
		if err := m.Calls(fmt.Sprint(i), new(throttle.Counter)); err != nil {
			t.Fatal(err)
		}
	}
	wants(m.Calls("c", &calls), `throttleotel: no room for the Counter of calls "c" beside 100 others`)
	if err := m.Guard("c", &guard); err != nil {
		t.Errorf("another kind has no room: %v", err)
	}
	fails := Metrics{Provider: failing{}}
	for range 2 { // the name is not in use
		wants(fails.Guard("c", &guard), `throttleotel: the Guard "c": no instruments`)
	}

	if err := m.Unregister(); err != nil {
		t.Error(err)
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("after Unregister %d metrics are collected", len(got))
	}
	if err := m.Calls("a", &calls); err != nil {
		t.Errorf("after Unregister the name is in use: %v", err)
	}
}

// failing is a MeterProvider that makes no instruments.
type failing struct{ api.MeterProvider }

func (failing) Meter(string, ...api.MeterOption) api.Meter { return failingMeter{} }

type failingMeter struct{ api.Meter }

func (failingMeter) Int64ObservableUpDownCounter(string, ...api.Int64ObservableUpDownCounterOption) (api.Int64ObservableUpDownCounter, error) {
	return nil, errors.New("no instruments")
}

// TestRequestsBound: beyond 1000 rules and reasons, those seen first keep their
// series, the others add up, and no counter goes back.
func TestRequestsBound(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	var one, two decisions
	if err := errors.Join(m.Requests("one", &one), m.Requests("two", &two)); err != nil {
		t.Fatal(err)
	}
	count := func(c *decisions, from, to int) {
		for i := from; i < to; i++ {
			c.OnEvent(event{Verdict: admit.Admitted, Answer: rules.Answer{OK: true, Reason: rules.Within, Rule: fmt.Sprint("rule ", i)}})
		}
	}
	count(&one, 500, 1200) // 700 rules
	count(&two, 0, 300)    // 300 rules: no room is left
	before := values(collect(t, reader)["throttle.server.requests"])
	count(&one, 0, 1200) // 500 new
	count(&two, 300, 310)
	after := values(collect(t, reader)["throttle.server.requests"])
	if len(before) != maxSeries || len(after) != maxSeries+2 {
		t.Errorf("%d series, then %d; want 1000, then _OTHER of two names beside", len(before), len(after))
	}
	for key, n := range before {
		if after[key] < n {
			t.Errorf("%s was %v and is %v", key, n, after[key])
		}
	}
	for key, want := range map[string]float64{"one,_OTHER": 500, "two,_OTHER": 10, "one,rule 600": 2, "two,rule 299": 1} {
		name, rule, _ := strings.Cut(key, ",")
		key = "throttle.degraded=false,throttle.name=" + name + ",throttle.reason=within,throttle.rule=" + rule
		if after[key] != want {
			t.Errorf("%s is %v, want %v", key, after[key], want)
		}
	}
}

// TestShedders: Shedders that come and go are observed as they are when a reader
// collects, at most 100 of them.
func TestShedders(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	all := map[string]*admit.Shedder{}
	if err := m.Shedders(func() map[string]*admit.Shedder { return all }); err != nil {
		t.Fatal(err)
	}
	if m.Shedders(nil) == nil || m.Shedders(func() map[string]*admit.Shedder { return nil }) == nil {
		t.Error("none, and a second set, have no error")
	}
	limits := func() map[string]float64 { return values(collect(t, reader)["throttle.shedder.limit"]) }
	if got := limits(); len(got) != 0 {
		t.Errorf("without a Shedder there are %v", got)
	}
	all["/a/*"], all["/b"], all["/none"] = &admit.Shedder{MaxInFlight: 3}, &admit.Shedder{MaxInFlight: 5}, nil
	if got := limits(); len(got) != 2 || got["throttle.name=/a/*"] != 3 || got["throttle.name=/b"] != 5 {
		t.Errorf("two Shedders are %v", got)
	}
	delete(all, "/a/*")
	if got := limits(); len(got) != 1 || got["throttle.name=/b"] != 5 {
		t.Errorf("what is left of them is %v", got)
	}
	for i := range 2 * maxNames {
		all[fmt.Sprintf("%03d", i)] = &admit.Shedder{MaxInFlight: 1}
	}
	got := limits()
	if _, ok := got["throttle.name=/b"]; len(got) != maxNames || !ok {
		t.Errorf("of %d Shedders there are %d, want the first %d", len(all), len(got), maxNames)
	}
}

// TestConcurrent: parts come and go while readers collect.
func TestConcurrent(t *testing.T) {
	one, two := metric.NewManualReader(), metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(one), metric.WithReader(two))}
	var decided decisions
	var guard store.Guard
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 50 {
				// Another goroutine may have registered the same names.
				_, _ = m.Requests(fmt.Sprint(i%3), &decided), m.Guard(fmt.Sprint(i%3), &guard)
				decided.OnEvent(event{Verdict: admit.Limited, Answer: rules.Answer{Reason: rules.Over, Rule: fmt.Sprint(i)}})
				if err := m.Unregister(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, reader := range []metric.Reader{one, two} {
		all.Go(func() {
			for range 50 {
				collect(t, reader)
			}
		})
	}
	all.Wait()
	if err := errors.Join(m.Unregister(), m.Requests("a", &decided)); err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, n := range values(collect(t, one)["throttle.server.requests"]) {
		total += n
	}
	if total != 200 {
		t.Errorf("%v requests collected, want 200", total)
	}
}

// TestRateOfIdle: the rate is that of the calls, also long after the last.
func TestRateOfIdle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		th.Restore(pace.Learnt{At: time.Now(), Rate: 40})
		for range 20 {
			if err := th.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		if got := throttleNow(&th).rate; got < 39 || got > 42 {
			t.Errorf("the rate is %v, want about 40", got)
		}
		if got := throttleNow(new(throttle.Throttle)).rate; got != 0 {
			t.Errorf("the rate of a Throttle that learnt nothing is %v, want 0", got)
		}
	})
}

// TestNoAllocations: being observed changes nothing on the way of a
// call, and the numbers are read when they are collected.
func TestNoAllocations(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	var calls throttle.Counter
	one := throttle.Throttle{Control: &pace.Fixed{Rate: 1e9}, OnEvent: calls.OnEvent}
	do := func() {
		_ = one.Do(t.Context(), func(context.Context) error { return nil })
	}
	without := testing.AllocsPerRun(100, do)
	if err := errors.Join(m.Calls("a", &calls), m.Throttle("a", &one)); err != nil {
		t.Fatal(err)
	}
	collect(t, reader)
	if with := testing.AllocsPerRun(100, do); with != without {
		t.Errorf("%v allocations a call with metrics, %v without", with, without)
	}
	if n := testing.AllocsPerRun(100, func() { calls.OnEvent(throttle.Event{Kind: throttle.Starts}) }); n > 0 {
		t.Errorf("%v allocations an event, want none", n)
	}
	n := calls.Stats().Starts
	if got := values(collect(t, reader)["throttle.client.starts"])["throttle.name=a"]; got != float64(n) {
		t.Errorf("%v starts collected, want %d", got, n)
	}
}

// values are those of a metric by their attributes.
func values(m metricdata.Metrics) map[string]float64 {
	all := map[string]float64{}
	_, points := points(m)
	for _, p := range points {
		all[p.attrs.Encoded(attribute.DefaultEncoder())] = p.value
	}
	return all
}
