package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleotel"
	"github.com/throttle-go/throttle/throttleredis"
)

// promtool is Prometheus' own check, from $PROMTOOL, .bin or the PATH. The test is
// skipped where there is none, but in 'make integration'.
func promtool(t *testing.T) string {
	t.Helper()
	for _, path := range []string{cmp.Or(os.Getenv("PROMTOOL"), "promtool"), "../../../../.bin/promtool"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("THROTTLE_INTEGRATION") != "" {
		t.Fatal("scripts/need-integration.sh installs promtool")
	}
	t.Skip("NO PROMTOOL: metrics and alerts are NOT checked by it; run make integration")
	return ""
}

// full is a Config with every part that has metrics, after some decisions; the
// store fails, so that the breaker is open.
func full(t *testing.T) Config {
	t.Helper()
	guard := &store.Guard{Failures: 1, Store: store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		return false, fmt.Errorf("the store is away")
	})}
	counter, inFlight, leases, shedder := new(admit.Counter), new(store.InFlight), &store.Leases{Store: guard}, new(admit.Shedder)
	source := &rules.Source{Fetch: func(context.Context, string) ([]byte, string, error) {
		return []byte(`{"version": "v1", "rules": [{"name": "a", "key": "client", "limits": "2/h"}, {"name": "tried", "shadow": true, "limits": "0/s"}]}`), "", nil
	}}
	if err := source.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	control := &admit.Control{Store: leases, Rules: &source.Live, InFlight: inFlight, Shed: shedder}
	return Config{
		Tokens: tokens, Build: "v9.9.9", Instance: "test-1", Rules: &source.Live, Sources: []Source{{"file", source}},
		Store: leases, Guard: guard, Counter: counter,
		Observe: func(m *throttleotel.Metrics) error {
			onEvent, err := m.Latency("gateway")
			if err != nil {
				return err
			}
			control.OnEvent = func(e admit.Event) { counter.OnEvent(e); onEvent(e) }
			for i := range 5 {
				a, _ := control.Begin(t.Context(), admit.Request{Request: rules.Request{Client: fmt.Sprintf("hostile\n\"{}%d", i%2)}})
				a.Done()
			}
			for _, err := range []error{m.InFlight("gateway", inFlight), m.Leases("store", leases), m.Shedder("gateway", shedder), m.Redis("store", new(throttleredis.Store))} {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// TestMetrics: the metrics of every part are served, clean by Prometheus' own
// check, and no key is a label.
func TestMetrics(t *testing.T) {
	r := start(t, full(t))
	a := r.send("GET", "/metrics", "", "Authorization", "Bearer "+readSecret)
	if a.status != 200 {
		t.Fatalf("/metrics: %d %s", a.status, a.body)
	}
	for _, want := range []string{
		`throttle_build_info{`, `throttle_version="v9.9.9"`,
		"throttle_config_last_reload_successful{", "throttle_config_age_seconds{", `throttle_config_info{`, `throttle_version="v1"`,
		`throttle_server_requests_total{`, `throttle_server_decision_duration_seconds_bucket{`, `throttle_rules_age_seconds{`,
		`throttle_guard_state{`, `throttle_leases_store_calls_total{`, "throttle_in_flight_holds{", "throttle_shedder_limit{",
		"process_resident_memory_bytes ", "go_goroutines ",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if strings.Contains(a.body, "hostile") {
		t.Error("/metrics has a key in it")
	}
	cmd := exec.CommandContext(t.Context(), promtool(t), "check", "metrics")
	cmd.Stdin = strings.NewReader(a.body)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// TestOTLP: metrics are pushed to a collector by OTLP over HTTP, now and then and
// at the end; one that is away does not keep the role from serving.
func TestOTLP(t *testing.T) {
	pushed := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		pushed <- r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer collector.Close()
	c := full(t)
	c.OTLP, c.OTLPEvery = collector.URL, 20*time.Millisecond
	r := start(t, c)
	got := <-pushed
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"/v1/metrics application/x-protobuf ", "throttle.server.decision.duration", "throttle.config.info", "test-1", "v9.9.9"} {
		if !strings.Contains(got, want) {
			t.Errorf("what was pushed has no %s", want)
		}
	}
	c = full(t)
	c.OTLP, c.OTLPEvery = "http://me:wOrd@127.0.0.1:1/?token=wOrd", 10*time.Millisecond
	lines := make(pipe, 100)
	c.Log = slog.New(slog.NewTextHandler(lines, nil))
	if a := start(t, c).send("GET", "/readyz", ""); a.status != 200 {
		t.Errorf("without its collector: %d %s", a.status, a.body)
	}
	for line := range lines {
		if !strings.Contains(line, "metrics were not pushed") {
			continue
		}
		if strings.Contains(line, "wOrd") {
			t.Errorf("the log shows what is secret in the URL of the collector: %s", line)
		}
		return
	}
}

// pipe passes on the lines of a log, as many as it holds.
type pipe chan string

func (p pipe) Write(line []byte) (int, error) {
	select {
	case p <- string(line):
	default:
	}
	return len(line), nil
}
