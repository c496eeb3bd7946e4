package report

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// browser is one with a report open.
type browser struct{ *browsertest.Browser }

const allDrawn = `document.documentElement.dataset.drawn !== undefined`

// undrawn are the charts in which the colour of none of their lines or dots is
// to be seen.
const undrawn = `(() => {
	const bad = [];
	for (const fig of document.querySelectorAll("figure")) {
		const chart = fig.querySelector(".plot").chart, canvas = fig.querySelector("canvas");
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
		copy.drawImage(canvas, 0, 0);
		const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
		let seen = 0;
		for (const [i, s] of chart.series.entries()) {
			if (i === 0) continue;
			const text = s.stroke(chart, i), rgb = [1, 3, 5].map(k => parseInt(text.slice(k, k + 2), 16));
			for (let p = 0; p < data.length && seen < 50; p += 4) {
				if (data[p + 3] > 99 && rgb.every((c, k) => Math.abs(c - data[p + k]) < 24)) seen++;
			}
		}
		if (seen < 50) bad.push((fig.closest(".policy")?.id ?? "together") + " " + fig.dataset.chart + ": " + seen);
	}
	return bad;
})()`

func TestReportInBrowser(t *testing.T) {
	b := browser{browsertest.Open(t)}
	scenarios := []sim.Scenario{clitest.Builtin(t, "sleeper"), clitest.Builtin(t, "emr-shared"), crowd()}
	results := mustResults(t, 3, scenarios, "none", "autosleeper", "adaptive-informed")
	path := filepath.Join(t.TempDir(), "report.html")
	if err := WriteHTMLFile(path, results); err != nil {
		t.Fatal(err)
	}
	b.Scheme("light")
	b.Do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
	b.Await(allDrawn)

	// Two charts of all policies together; three of each policy under sleeper,
	// whose server has no level, and four under the others.
	if got, want := browsertest.Ask[int](b.Browser, `document.querySelectorAll("canvas").length`), 2+3*3+2+3*4+2+3*4; got != want {
		t.Errorf("%d canvases, want %d", got, want)
	}
	if got := browsertest.Ask[string](b.Browser, `document.querySelectorAll("h2")[2].textContent`); got != hostile {
		t.Errorf("third heading %q, want %q", got, hostile)
	}
	if browsertest.Ask[bool](b.Browser, `document.images.length > 0 || "hacked" in window`) {
		t.Error("a scenario's name became part of the page")
	}
	b.checkDrawn("light")
	b.checkTable(results)
	b.checkTogether("s2", []string{"none", "autosleeper", "adaptive-informed"})
	b.Shot("light")
	b.checkKeyboard()
	b.checkLogarithmic()

	light := browsertest.Ask[string](b.Browser, `getComputedStyle(document.body).backgroundColor`)
	b.Scheme("dark")
	b.Await(`getComputedStyle(document.body).backgroundColor !== "` + light + `"`)
	b.checkDrawn("dark")
	b.Shot("dark")
	for _, width := range []int64{390, 320, 844, 1920} {
		b.checkWidth(width)
	}

	if len(b.Requests()) == 0 {
		t.Error("the browser reported no request, not even for the file")
	}
	b.Clean("file:")
}

func (b browser) checkDrawn(when string) {
	b.Helper()
	bad := browsertest.Ask[[]string](b.Browser, undrawn)
	for tries := 0; len(bad) > 0 && tries < 20; tries++ { // charts are drawn a frame after their colours change
		time.Sleep(250 * time.Millisecond)
		bad = browsertest.Ask[[]string](b.Browser, undrawn)
	}
	for _, bad := range bad {
		b.Errorf("%s: chart with hardly a pixel of its lines: %s", when, bad)
	}
}

// checkTogether holds the charts of all policies of a scenario to those of each:
// what was throttled in the end is what its own run says.
func (b browser) checkTogether(scenario string, policies []string) {
	b.Helper()
	chart := `document.querySelectorAll("#` + scenario + `-together figure")[1]`
	if got := browsertest.Ask[[]string](b.Browser, `[...`+chart+`.querySelectorAll(".legend li")].map(e => e.textContent)`); !slices.Equal(got, policies) {
		b.Errorf("together: lines of %q, want %q", got, policies)
	}
	ends := browsertest.Ask[[]float64](b.Browser, chart+`.querySelector(".plot").chart.data.slice(1).map(y => y.findLast(x => x != null))`)
	seen := browsertest.Ask[[]float64](b.Browser, `[...document.querySelectorAll("#`+scenario+` .trace")].map(e => JSON.parse(e.textContent).seen[1])`)
	for i := range policies {
		if len(ends) != len(policies) || len(seen) != len(policies) || math.Abs(ends[i]-seen[i]) > 0.01*seen[i]+1 {
			b.Fatalf("together: %v throttled in the end, want %v", ends, seen)
		}
	}
}

// shownCell is a cell of a table as it is on the page.
type shownCell struct {
	Policy, Measure string
	Values          []float64 // exact
	Texts           []string  // as they read
}

const shownCells = `[...document.querySelectorAll(".scenario")].map(s => [...s.querySelectorAll("td")].map(td => ({
	policy: td.parentNode.dataset.policy, measure: td.dataset.measure,
	values: [...td.querySelectorAll("data")].map(d => Number(d.value)),
	texts: [...td.querySelectorAll("data")].map(d => d.textContent),
})))`

// checkTable compares every number of the tables with those of -json.
func (b browser) checkTable(results []batch.Result) {
	b.Helper()
	var text bytes.Buffer
	if err := WriteJSON(&text, results); err != nil {
		b.Fatal(err)
	}
	var want struct{ Results []map[string]any }
	if err := json.Unmarshal(text.Bytes(), &want); err != nil {
		b.Fatal(err)
	}
	scale := map[string]float64{}
	for _, c := range columns() {
		scale[c.Name] = c.Scale
	}
	seen := 0
	for i, cells := range browsertest.Ask[[][]shownCell](b.Browser, shownCells) {
		for _, cell := range cells {
			for _, row := range want.Results[3*i : 3*i+3] {
				if row["policy"] == cell.Policy {
					seen += b.checkCell(cell, row[cell.Measure], scale[cell.Measure])
				}
			}
		}
	}
	given := 0
	for _, row := range want.Results {
		for name := range scale {
			if row[name] != nil {
				given++
			}
		}
	}
	if seen != given {
		b.Errorf("%d measures in the tables, want %d", seen, given)
	}
}

// checkCell reports 1 if the cell has figures.
func (b browser) checkCell(cell shownCell, want any, scale float64) int {
	b.Helper()
	stat, ok := want.(map[string]any)
	if !ok {
		if len(cell.Values) > 0 {
			b.Errorf("%s %s: shows %v, want nothing", cell.Policy, cell.Measure, cell.Values)
		}
		return 0
	}
	for i, name := range []string{"median", "min", "max"}[:max(1, len(cell.Values))] {
		exact := stat[name].(float64)
		if i >= len(cell.Values) || cell.Values[i] != exact {
			b.Errorf("%s %s: %s shown %v, want %v", cell.Policy, cell.Measure, name, cell.Values, exact)
			return 0
		}
		read := strings.ReplaceAll(cell.Texts[i], ",", "")
		_, decimals, _ := strings.Cut(read, ".")
		x, err := strconv.ParseFloat(read, 64)
		if half := 0.5000001 * math.Pow10(-len(decimals)); err != nil || math.Abs(x-exact*scale) > half {
			b.Errorf("%s %s: %s reads %s, want %v rounded", cell.Policy, cell.Measure, name, cell.Texts[i], exact*scale)
		}
	}
	return 1
}

// checkKeyboard sorts a table and reads a chart without a mouse.
func (b browser) checkKeyboard() {
	b.Helper()
	browsertest.Ask[any](b.Browser, `document.querySelector("#s1 thead button").focus()`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	const column = `[...document.querySelectorAll("#s1 tbody tr")].map(tr => Number(tr.querySelector("[data-measure=retry_rate] data").value))`
	if got := browsertest.Ask[[]float64](b.Browser, column); len(got) != 3 || got[0] > got[1] || got[1] > got[2] {
		b.Errorf("retry rates after sorting by keyboard: %v, want them ascending", got)
	}
	if got := browsertest.Ask[string](b.Browser, `document.querySelector("#s1 thead th:nth-child(2)").ariaSort`); got != "ascending" {
		b.Errorf("aria-sort is %q, want ascending", got)
	}
	for i, kind := range []string{"dots", "lines", "rates"} {
		figure := `document.querySelectorAll("#s1-p2 figure")[` + strconv.Itoa(i) + `]`
		browsertest.Ask[any](b.Browser, figure+`.querySelector(".plot").focus()`)
		b.Do(chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
		b.Await(figure + `.querySelector(".readout").textContent.length > 5`)
		before := browsertest.Ask[float64](b.Browser, figure+`.querySelector(".plot").chart.scales.x.max`)
		b.Do(chromedp.KeyEvent("+"))
		b.Await(figure + `.querySelector(".plot").chart.scales.x.max < ` + strconv.FormatFloat(before, 'g', -1, 64))
		b.Do(chromedp.KeyEvent(kb.Escape))
		b.Await(figure + `.querySelector(".plot").chart.scales.x.max >= ` + strconv.FormatFloat(before, 'g', -1, 64))
		if got := browsertest.Ask[string](b.Browser, figure+`.dataset.chart`); got != kind {
			b.Errorf("chart %d is %s, want %s", i, got, kind)
		}
	}
}

// checkLogarithmic draws the delays anew on the other scale and back.
func (b browser) checkLogarithmic() {
	b.Helper()
	const distr = `document.querySelector("#s1-p2 .plot").chart.scales.y.distr`
	for _, want := range []int{4, 1} {
		browsertest.Ask[any](b.Browser, `document.querySelector(".log").click()`)
		b.Await(allDrawn)
		if got := browsertest.Ask[int](b.Browser, distr); got != want {
			b.Errorf("scale of delays is of kind %d, want %d", got, want)
		}
		b.checkDrawn("on the other scale")
	}
}

// checkWidth makes the page as wide as a phone or a large screen.
func (b browser) checkWidth(width int64) {
	b.Helper()
	b.Do(chromedp.EmulateViewport(width, 844, chromedp.EmulateScale(2)))
	b.Await(`[...document.querySelectorAll(".plot")].every(p => Math.abs(p.chart.width - p.clientWidth) < 2)`)
	if got := browsertest.Ask[int64](b.Browser, `document.documentElement.scrollWidth`); got > width {
		b.Errorf("at a width of %d the page is %d wide, want no scrolling sideways", width, got)
	}
	if got := browsertest.Ask[int64](b.Browser, `Math.max(...[...document.querySelectorAll("figure, .results")].map(e => Math.ceil(e.getBoundingClientRect().right)))`); got > width {
		b.Errorf("at a width of %d something ends at %d", width, got)
	}
	b.Shot("width" + strconv.FormatInt(width, 10))
}

// TestReportWideAxes: values of many digits beside a chart are not cut.
func TestReportWideAxes(t *testing.T) {
	b := browser{browsertest.Open(t)}
	s := sim.Scenario{
		Name: "long", Network: sim.Network{Latency: time.Second}, Duration: 20 * 24 * time.Hour, Clients: []sim.Group{{Processes: 1, Workers: 4}},
		Server: sim.Server{Limit: limit.Limit{Count: 1, Period: 24 * time.Hour}, Hints: sim.Hints{RetryAfter: true}},
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := WriteHTMLFile(path, mustResults(t, 1, []sim.Scenario{s}, "adaptive-informed")); err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
	b.Await(allDrawn)
	widest := browsertest.Ask[string](b.Browser, `(() => {
		const ruler = document.createElement("canvas").getContext("2d");
		let widest = "";
		for (const p of document.querySelectorAll(".plot")) for (const text of p.chart.axes[1]._values) {
			ruler.font = "12px system-ui, -apple-system, \"Segoe UI\", Roboto, sans-serif";
			if (ruler.measureText(text).width + 6 > p.chart.axes[1]._size) return "cut: " + text;
			if (text.length > widest.length) widest = text;
		}
		return widest;
	})()`)
	if len(widest) < len("100,000 s") || strings.HasPrefix(widest, "cut") {
		t.Errorf("the longest value is %q, want one of 100,000 s or more, and none cut", widest)
	}
	b.Shot("axes")
	b.Clean("file:")
}

// TestReportSmallAxes: the axis of what is in flight can be read where that is less than one
// request on average.
func TestReportSmallAxes(t *testing.T) {
	b := browser{browsertest.Open(t)}
	s := sim.Scenario{
		Name: "small", Network: sim.Network{Latency: 10 * time.Millisecond}, Duration: 10 * time.Minute,
		Clients: []sim.Group{{Processes: 1, Workers: 1, Arrivals: 1}},
		Server:  sim.Server{Service: sim.Service{Time: 20 * time.Millisecond, AtOnce: 2, Queue: 9}},
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := WriteHTMLFile(path, mustResults(t, 1, []sim.Scenario{s}, "adaptive")); err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
	b.Await(allDrawn)
	least := browsertest.Ask[int64](b.Browser, `Math.min(...[...document.querySelectorAll(".plot")].map(p => p.chart.axes[1]._values.length))`)
	if least < 2 {
		t.Errorf("an axis has %d values, want two at least", least)
	}
}
