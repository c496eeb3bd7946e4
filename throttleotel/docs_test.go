package throttleotel

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/rules"
)

var update = flag.Bool("update", false, "rewrite what docs/observability.md says of metrics and logs; read the difference")

const page = "../docs/observability.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// says checks, or writes with -update, what stands between two comments.
func says(t *testing.T, part, want string) {
	t.Helper()
	text := readPage(t)
	head, rest, ok := strings.Cut(text, "<!-- "+part+" -->\n")
	got, tail, ok2 := strings.Cut(rest, "<!-- end of "+part+" -->")
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no part %q", page, part)
	case got == want:
	case *update:
		text = head + "<!-- " + part + " -->\n" + want + "<!-- end of " + part + " -->" + tail
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s says of %s\n%s\nwant (go test -update)\n%s", page, part, got, want)
	}
}

// TestDocsMetrics: the table is what is collected, and what Prometheus scrapes.
func TestDocsMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	m := Metrics{Provider: metric.NewMeterProvider(metric.WithReader(reader))}
	var all map[string]metricdata.Metrics
	inBubble(t, &m, func(*world) { all = collect(t, reader) })
	families := familiesOf(t, scrapeBusy(t))

	var table strings.Builder
	table.WriteString("| metric | in Prometheus | kind | unit | attributes | meaning |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		metric := all[name]
		kind, values := points(metric)
		family := families[metric.Description]
		if family == "" {
			t.Errorf("no metric that Prometheus scrapes is described as %s: %q", name, metric.Description)
		}
		unit := "–"
		if metric.Unit != "" {
			unit = "`" + metric.Unit + "`"
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s | %s |\n",
			name, family, kind, unit, attributesOf(name, values), metric.Description)
	}
	says(t, "metrics", table.String())
}

// familiesOf are the names of what was scraped, by what is said of them.
func familiesOf(t *testing.T, scraped string) map[string]string {
	t.Helper()
	families := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (\S+) (.*)$`).FindAllStringSubmatch(scraped, -1) {
		if other := families[m[2]]; other != "" {
			t.Errorf("%s and %s are described alike", other, m[1])
		}
		families[m[2]] = m[1]
	}
	return families
}

// attributesOf lists attributes, and their values where these are fixed.
func attributesOf(name string, of []point) string {
	values := map[string][]string{}
	for _, p := range of {
		for _, a := range p.attrs.ToSlice() {
			key := strings.TrimPrefix(string(a.Key), "throttle.")
			if v := a.Value.String(); !slices.Contains(values[key], v) {
				values[key] = append(values[key], v)
			}
		}
	}
	delete(values, "name")
	var all []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text := "`" + key + "`"
		if key != "rule" && key != "version" && key != "go" && !(key == "reason" && name == "throttle.server.requests") {
			slices.Sort(values[key])
			text += ": " + strings.Join(values[key], ", ")
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// jsonLog is a Logger of JSON lines at level debug, without their times.
func jsonLog(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// TestDocsLogs: the lines of the page are what is logged.
func TestDocsLogs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		th := throttle.Throttle{Control: &pace.Fixed{Rate: 2}, Tries: 2, OnEvent: throttle.Log(jsonLog(&lines))}
		err := th.Do(t.Context(), func(context.Context) error {
			time.Sleep(120 * ms)
			return throttle.Throttled(errors.New("429 Too Many Requests"), 0)
		})
		if !errors.Is(err, throttle.ErrTries) {
			t.Errorf("Do = %v, want that no tries are left", err)
		}
		says(t, "log of a call", "```json\n"+lines.String()+"```\n")

		lines.Reset()
		log := logDecisions(jsonLog(&lines), 10)
		limited := login(log)
		for i := range 3 + 100 + 1 {
			limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if i == 3+100-1 {
				time.Sleep(time.Second)
			}
		}
		log(event{Verdict: admit.Admitted, Answer: rules.Answer{OK: true, Reason: rules.Within, Rule: "login", Shadow: []string{"login-2"}}})
		log(event{Verdict: admit.Admitted, Answer: rules.Answer{OK: true, Reason: rules.Within, Rule: "login"}, RefundErr: errors.New("dial tcp: connection refused")})
		all := strings.SplitAfter(lines.String(), "\n")
		if len(all) != 10+3+1 {
			t.Errorf("%d lines for 101 refusals and 2 more, want 13:\n%s", len(all)-1, lines.String())
		}
		says(t, "log of decisions", "```json\n"+strings.Join(all[max(0, len(all)-4):], "")+"```\n")
	})
}

// TestDocsQueries: each metric, label and value that the page names in PromQL is
// in a scrape.
func TestDocsQueries(t *testing.T) {
	scraped := scrapeBusy(t)
	text := readPage(t)
	var queries []string
	for _, m := range regexp.MustCompile("(?ms)^```(promql|yaml)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		queries = append(queries, m[2])
	}
	_, rest, _ := strings.Cut(text, "## Three graphs")
	for _, m := range regexp.MustCompile("`(throttle_[a-z_]+)`").FindAllStringSubmatch(rest, -1) {
		queries = append(queries, m[1])
	}
	if len(queries) < 4+4 {
		t.Fatalf("found %d queries, want three graphs, two alarms and some names: %q", len(queries), queries)
	}
	for _, w := range unknown(strings.Join(queries, "\n"), scraped) {
		t.Errorf("the page queries %s, which no scrape has", w)
	}
	for query, want := range map[string]string{
		"rate(throttle_client_tries[5m])":             "throttle_client_tries",
		"throttle_guard_state{throttle_status=\"a\"}": "throttle_status",
		"throttle_guard_state{throttle_state=\"a\"}":  `throttle_state="a"`,
	} {
		if got := unknown(query, scraped); len(got) != 1 || got[0] != want {
			t.Errorf("unknown of %s is %q, want %s", query, got, want)
		}
	}
}

// unknown are the names of metrics and labels, and the values of labels, that a
// scrape does not have.
func unknown(queries, scraped string) (names []string) {
	for _, name := range regexp.MustCompile(`throttle_[a-z_]+`).FindAllString(queries, -1) {
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]|[{,]` + name + `="`).MatchString(scraped) {
			names = append(names, name)
		}
	}
	for _, m := range regexp.MustCompile(`(throttle_[a-z_]+)=~?"([^"]+)"`).FindAllStringSubmatch(queries, -1) {
		for _, value := range strings.Split(m[2], "|") {
			label := fmt.Sprintf("%s=%q", m[1], value)
			if !slices.Contains(names, m[1]) && !strings.Contains(scraped, label) {
				names = append(names, label)
			}
		}
	}
	return names
}

// TestDocsExample: the page shows the example that is run.
func TestDocsExample(t *testing.T) {
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^type service struct.*?^}\n\n.*?^}\n").Find(code)
	if m == nil || !strings.Contains(readPage(t), string(m)) {
		t.Errorf("%s does not show\n%s", page, m)
	}
	if n := bytes.Count(m, []byte("\n")); n > 24 {
		t.Errorf("the example has %d lines, want fewer than 20 and a type", n)
	}
}
