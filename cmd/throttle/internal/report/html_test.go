package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// hostile is a name that breaks out of whatever does not escape it.
const hostile = `</script><img src=x onerror="window.hacked=1">{{.}}<!-- '"&amp;`

// crowd is a scenario with everything that has a way of its own to be drawn:
// more workers than lines, rivals, changes, failures, a hostile name.
func crowd() sim.Scenario {
	none, err := sim.ParsePolicy("none")
	if err != nil {
		panic(err)
	}
	return sim.Scenario{
		Name: hostile, Duration: time.Minute,
		Server: sim.Server{
			Limit:   limit.Limit{Count: 20, Period: time.Second, Burst: 40},
			Hints:   sim.Hints{Remaining: true, RetryAfter: true},
			Errors:  0.05,
			Changes: []sim.Change{{At: 20 * time.Second, Count: 60, Period: time.Second}},
		},
		Network: sim.Network{Latency: 100 * time.Millisecond, Spread: 0.2},
		Clients: []sim.Group{
			{Processes: 4, Workers: 6},
			{Processes: 1, Workers: 1, Policy: &none},
		},
	}
}

func mustResults(t *testing.T, seeds int, scenarios []sim.Scenario, policies ...string) (results []batch.Result) {
	t.Helper()
	var all []sim.Policy
	for _, text := range policies {
		p, err := sim.ParsePolicy(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, s := range scenarios {
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		results = append(results, batch.Run(t.Context(), s, all, seeds, 1, nil))
	}
	return results
}

// report is the report as text.
func reportText(t *testing.T, results []batch.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, results); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// element is the content of the element that begins with open.
func element(t *testing.T, page, open, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, open)
	if !ok {
		t.Fatalf("no %s in the report", open)
	}
	text, _, _ := strings.Cut(rest, end)
	return text
}

func TestReportHasTheNumbersOfJSON(t *testing.T) {
	results := mustResults(t, 3, []sim.Scenario{clitest.Builtin(t, "emr-workers"), crowd()}, "backoff(factor=2)", "adaptive")
	page := reportText(t, results)
	var want bytes.Buffer
	if err := WriteJSON(&want, results); err != nil {
		t.Fatal(err)
	}
	if got := element(t, page, `<script type="application/json" id="results">`, "</script>"); got != want.String() {
		t.Errorf("results in the report differ from -json:\ngot  %.200s\nwant %.200s", got, want.String())
	}
	if n := strings.Count(page, `class="trace"`); n != 4 {
		t.Errorf("%d runs drawn, want 4", n)
	}
}

func TestReportEscapesNames(t *testing.T) {
	page := reportText(t, mustResults(t, 1, []sim.Scenario{crowd()}, "adaptive"))
	if strings.Contains(page, "<img") {
		t.Error("the scenario's name is in the report as it is, want it escaped")
	}
	if !strings.Contains(html.UnescapeString(page), ">"+hostile+"</h2>") {
		t.Error("the scenario's name is not the heading")
	}
	scripts := strings.Count(strings.ToLower(page), "<script")
	if ends := strings.Count(strings.ToLower(page), "</script"); ends != scripts {
		t.Errorf("%d scripts begin, %d end", scripts, ends)
	}
}

// TestReportAllowsOnlyItself checks that the policy of the page names its own
// style and script, by content, and no place to load from.
func TestReportAllowsOnlyItself(t *testing.T) {
	page := reportText(t, mustResults(t, 1, []sim.Scenario{clitest.Builtin(t, "sleeper")}, "autosleeper"))
	policy := html.UnescapeString(element(t, page, `http-equiv="Content-Security-Policy" content="`, `"`))
	for _, part := range []struct{ name, open, end string }{{"style-src", "<style>", "</style>"}, {"script-src", "<script>", "</script>"}} {
		sum := sha256.Sum256([]byte(element(t, page, part.open, part.end)))
		want := part.name + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q: want %q in it", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %q: want nothing else allowed", policy)
	}
	if !strings.Contains(page, "The MIT License (MIT)") || !strings.Contains(page, "Copyright (c) 2022 Leon Sorokin") {
		t.Error("uPlot's licence is not in the report")
	}
}

// TestReportOfTheLevel: nothing is said of a server that no request reached, nor
// that one was empty which had filled up again before each request.
func TestReportOfTheLevel(t *testing.T) {
	s := sim.Scenario{
		Name: "level", Duration: time.Minute,
		Server:  sim.Server{Limit: limit.Limit{Count: 4, Period: time.Second, Burst: 1}},
		Network: sim.Network{Latency: 100 * time.Millisecond},
		Clients: []sim.Group{{Processes: 1, Workers: 1}},
	}
	none := s
	none.Name, none.Duration = "none", time.Millisecond
	s.Server.Start = pace.Some(int64(0))
	page := reportText(t, mustResults(t, 1, []sim.Scenario{none, s}, "fixed(rate=0.5,burst=1)"))
	var said []string
	for rest := page; ; {
		_, after, ok := strings.Cut(rest, "<h4>Level of the server</h4><p>")
		if !ok {
			break
		}
		text, more, _ := strings.Cut(after, "</p>")
		said, rest = append(said, text), more
	}
	if len(said) != 2 || strings.Contains(said[0], "Here") || strings.Contains(said[1], "empty") || !strings.Contains(said[1], "nothing was ever left") {
		t.Errorf("of the level is said %q", said)
	}
}

func TestReportOfNothing(t *testing.T) {
	page := reportText(t, []batch.Result{{Scenario: clitest.Builtin(t, "heroku"), Interrupted: true}})
	if !strings.Contains(page, "interrupted") {
		t.Error("a report of an interrupted simulation does not say so")
	}
}

// What was interrupted before one run was over is not played for a picture, which
// may take long.
func TestSVGOfNothing(t *testing.T) {
	var svg bytes.Buffer
	r := batch.Result{Scenario: clitest.Builtin(t, "heroku"), Policies: []sim.Policy{{Name: "never-ran"}}, Interrupted: true}
	if err := WriteSVG(&svg, []batch.Result{r}); err != nil || strings.Contains(svg.String(), "never-ran") {
		t.Errorf("the picture of an interrupted simulation: %v\n%s", err, &svg)
	}
}

// TestReportSkipsWhatHasNoRow checks that charts go with the right rows when
// some policies have none.
func TestReportSkipsWhatHasNoRow(t *testing.T) {
	results := mustResults(t, 1, []sim.Scenario{clitest.Builtin(t, "sleeper")}, "none", "autosleeper", "fixed")
	results[0].Rows = results[0].Rows[1:2]
	page := reportText(t, results)
	if got := element(t, page, `<h3 id="s1-p1-name">`, "</h3>"); got != "autosleeper" {
		t.Errorf("the first chart is of %q, want autosleeper", got)
	}
}

func TestReportOfManyRunsIsBounded(t *testing.T) {
	s := clitest.Builtin(t, "sleeper")
	one := mustResults(t, 1, []sim.Scenario{s}, "autosleeper")
	many := batch.Result{Scenario: s, Seed: 1}
	for range maxCharted + 20 {
		many.Policies = append(many.Policies, one[0].Policies[0])
		many.Rows = append(many.Rows, one[0].Rows[0])
	}
	page := reportText(t, []batch.Result{many})
	if got := strings.Count(page, `class="trace"`); got != maxCharted {
		t.Errorf("%d runs drawn, want %d", got, maxCharted)
	}
	if got, want := len(page), 12<<20; got > want {
		t.Errorf("%d bytes, want at most %d", got, want)
	}
}

func TestReportOfHerokuIsSmall(t *testing.T) {
	var policies []string
	for _, p := range sim.Policies() {
		policies = append(policies, p.Name)
	}
	page := reportText(t, mustResults(t, 1, []sim.Scenario{clitest.Builtin(t, "heroku")}, policies...))
	if got, want := len(page), 3<<20; got > want {
		t.Errorf("%d bytes for heroku under %d policies, want at most %d", got, len(policies), want)
	}
}

func TestReportFileIsThereCompleteOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.html")
	bad := mustResults(t, 1, []sim.Scenario{clitest.Builtin(t, "sleeper")}, "autosleeper")
	good := slices.Clone(bad)
	bad[0].Rows = slices.Clone(bad[0].Rows)
	bad[0].Rows[0].Summary.Stats = slices.Clone(bad[0].Rows[0].Summary.Stats)
	bad[0].Rows[0].Summary.Stats[0] = pace.Some(sim.Stat{Median: math.NaN()}) // no JSON
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteHTMLFile(path, bad); err == nil {
		t.Error("no error for results that cannot be written")
	}
	if got, _ := os.ReadFile(path); string(got) != "before" {
		t.Errorf("after a failure the file holds %d bytes, want what it held before", len(got))
	}
	if err := WriteHTMLFile(path, good); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !strings.HasSuffix(string(got), "</html>\n") {
		t.Errorf("the file ends with %q, want </html>", got[max(0, len(got)-20):])
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("%d files left, want 1", len(names))
	}
	if err := WriteHTMLFile(filepath.Join(dir, "no", "r.html"), good); err == nil {
		t.Error("no error for a directory that is not there")
	}
}

// TestReportToADevice must not replace the device by a file.
func TestReportToADevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteHTMLFile(link, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is now %v, %v", os.DevNull, info, err)
	}
}

// TestReportContrast checks the colours against WCAG 2.2, level AA: 4.5 for
// text, 3 for what is drawn.
func TestReportContrast(t *testing.T) {
	light, dark, ok := strings.Cut(reportCSS, "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("no dark colours")
	}
	light, _, _ = strings.Cut(light, "@media")
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string][3]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			n, _ := strconv.ParseUint(m[2], 16, 32)
			colours[m[1]] = [3]float64{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}
		}
		check := func(front, back string, least float64) {
			f, b := luminance(colours[front]), luminance(colours[back])
			if got := (max(f, b) + 0.05) / (min(f, b) + 0.05); got < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", name, front, back, got, least)
			}
		}
		for _, back := range []string{"card", "page"} {
			for _, front := range []string{"ink", "muted", "link"} {
				check(front, back, 4.5)
			}
		}
		check("best-ink", "best", 4.5)
		for _, front := range []string{"served", "throttled", "failed", "capacity", "level"} {
			check(front, "card", 3)
		}
		for i := range 6 {
			check(fmt.Sprintf("worker-%d", i+1), "card", 3)
		}
	}
}

// luminance is as WCAG defines it.
func luminance(c [3]float64) float64 {
	var l [3]float64
	for i, v := range c {
		v /= 255
		if l[i] = v / 12.92; v > 0.04045 {
			l[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
}
