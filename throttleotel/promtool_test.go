package throttleotel

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onceAMinute are series, once a minute, by which each alarm of the page must go
// off, and must not before.
const onceAMinute = `
rule_files: [alarms.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'throttle_guard_state{throttle_name="redis",throttle_state="closed",instance="a"}', values: '1 1 0 0 0 1 1'}
      - {series: 'throttle_guard_state{throttle_name="redis",throttle_state="away",instance="a"}', values: '0 0 1 1 1 0 0'}
      - {series: 'throttle_guard_state{throttle_name="redis",throttle_state="slow",instance="b"}', values: '0 0 1 1 1 0 0'}
    alert_rule_test:
      - {eval_time: 2m, alertname: StoreAway}
      - eval_time: 3m
        alertname: StoreAway
        exp_alerts:
          - exp_labels: {severity: page, throttle_name: redis}
            exp_annotations: {summary: "2 processes decide without the store redis: limits are those of their Fallback."}
      - {eval_time: 6m, alertname: StoreAway}
  - interval: 1m
    input_series:
      - {series: 'throttle_client_starts_total{throttle_name="few"}', values: '0+1000x20'}
      - {series: 'throttle_client_give_ups_total{throttle_name="few"}', values: '0+9x20'}
      - {series: 'throttle_client_starts_total{throttle_name="many"}', values: '0+1000x20'}
      - {series: 'throttle_client_give_ups_total{throttle_name="many"}', values: '0+11x20'}
      - {series: 'throttle_client_starts_total{throttle_name="none"}', values: '0x20'}
      - {series: 'throttle_client_give_ups_total{throttle_name="none"}', values: '0+1x20'}
      - {series: 'throttle_client_starts_total{throttle_name="idle"}', values: '5x20'}
      - {series: 'throttle_client_give_ups_total{throttle_name="idle"}', values: '5x20'}
    alert_rule_test:
      - eval_time: 20m
        alertname: CallsGivenUp
        exp_alerts:
          - exp_labels: {severity: ticket, throttle_name: many}
            exp_annotations: {summary: "More than 1 % of the calls of many are given up: see the errors, MaxWait, Tries and deadlines."}
          - exp_labels: {severity: ticket, throttle_name: none}
            exp_annotations: {summary: "More than 1 % of the calls of none are given up: see the errors, MaxWait, Tries and deadlines."}
`

// TestPromtool has Prometheus itself check the metrics, the queries and the alarms
// of the page. It takes promtool from $PROMTOOL or the PATH.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath(cmp.Or(os.Getenv("PROMTOOL"), "promtool"))
	if err != nil {
		if os.Getenv("THROTTLE_INTEGRATION") != "" {
			t.Fatalf("scripts/need-integration.sh installs promtool: %v", err)
		}
		t.Skipf("only the names in PromQL were checked: %v", err)
	}
	dir := t.TempDir()
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := run(scrapeBusy(t), "check", "metrics"); strings.TrimSpace(out) != "" {
		t.Errorf("promtool check metrics says %s", out)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(promql|yaml)\n(.*?)^```$").FindAllStringSubmatch(readPage(t), -1) {
		if m[1] == "promql" {
			write("graph.yaml", fmt.Sprintf("groups: [{name: graphs, rules: [{record: graph, expr: %q}]}]", m[2]))
			run("", "check", "rules", "graph.yaml")
			continue
		}
		write("alarms.yaml", m[2])
		write("test.yaml", onceAMinute)
		run("", "check", "rules", "alarms.yaml")
		run("", "test", "rules", "test.yaml")
	}
}
