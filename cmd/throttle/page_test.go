//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const readToken = "0123456789abcdef-reading"

// hand is how somebody uses the page.
type hand struct {
	*browser
	keyboard bool
}

// to moves the focus to an element by the Tab key alone.
func (h hand) to(selector string) {
	h.Helper()
	for range 120 {
		if ask[bool](h.browser, `document.activeElement.matches(`+quoted(selector)+`)`) {
			return
		}
		h.do(chromedp.KeyEvent(kb.Tab))
	}
	h.Fatalf("no Tab leads to %s on\n%s", selector, ask[string](h.browser, `document.body.innerText`))
}

// click moves the mouse to an element and clicks there, once what the page puts in
// place of its parts moves it no more.
func (h hand) click(selector string) {
	h.Helper()
	var at []float64
	for range 100 {
		was := at
		at = ask[[]float64](h.browser, `(() => {
			const e = document.querySelector(`+quoted(selector)+`);
			if (!e) return [];
			e.scrollIntoView({block: "center", behavior: "instant"});
			const r = e.getBoundingClientRect();
			return [r.x + Math.min(r.width, 40) / 2, r.y + r.height / 2];
		})()`)
		if len(at) > 0 && slices.Equal(at, was) {
			h.do(chromedp.MouseClickXY(at[0], at[1]))
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
	h.Fatalf("%s does not stay where it is", selector)
}

// press uses a button, a link, a box or what opens something.
func (h hand) press(selector string) {
	h.Helper()
	h.await(`document.querySelector(` + quoted(selector) + `)`)
	if !h.keyboard {
		h.click(selector)
		return
	}
	h.to(selector)
	key := kb.Enter
	if strings.Contains(selector, "checkbox") {
		key = " "
	}
	h.do(chromedp.KeyEvent(key))
}

// write types text into a field, in place of what is there.
func (h hand) write(selector, text string) {
	h.Helper()
	h.await(`document.querySelector(` + quoted(selector) + `)`)
	focused := `document.activeElement.matches(` + quoted(selector) + `)`
	for tries := 0; tries < 10 && !ask[bool](h.browser, focused); tries++ {
		if h.keyboard {
			h.to(selector)
		} else {
			h.click(selector)
		}
	}
	ask[any](h.browser, `document.querySelector(`+quoted(selector)+`).select()`)
	h.do(chromedp.KeyEvent(text))
}

// fill writes a reason into a form and sends it.
func (h hand) fill(action string) {
	h.Helper()
	form := `form[action="/do/` + action + `"] `
	h.write(form+"[name=why]", "test of "+action)
	if action == "kill" {
		h.press(form + "[type=checkbox]")
	}
	h.press(form + "button")
	h.await(`document.querySelector(".banner.good") && location.search.includes("done=` + action + `")`)
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// pageFiles are those of an instance whose rules a test changes.
func pageFiles(t *testing.T) (file, rules string) {
	t.Helper()
	file = patientExample(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `  token: "${TOKEN}"`, "  token: \"${TOKEN}\"\n  read_token: "+readToken, 1))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	rules = filepath.Join(filepath.Dir(file), "rules.yaml")
	text, err = os.ReadFile(rules)
	if err != nil || !strings.Contains(string(text), "20/hour fixed-window") {
		t.Fatalf("%v: %s", err, text)
	}
	// A log has no instant at which all of it is unused again.
	text = []byte(strings.Replace(string(text), "20/hour fixed-window", "20/day sliding-log", 1))
	if err := os.WriteFile(rules, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, rules
}

// within waits until the clients of both instances see something: at most a second,
// where THROTTLE_SOAK=1 says that the machine has nothing else to do.
func within(t *testing.T, what string, both []*gatewayProcess, is func(g *gatewayProcess) bool) {
	t.Helper()
	began := time.Now()
	for _, g := range both {
		eventually(t, what, func() bool { return is(g) })
	}
	took := time.Since(began)
	if t.Logf("%s after %v", what, took.Round(time.Millisecond)); took > time.Second && os.Getenv("THROTTLE_SOAK") == "1" {
		t.Errorf("%s: that is more than a second", what)
	}
}

// TestPageInBrowser uses the page of one of two instances by clicks, and again by
// the keyboard alone, and sees each change take effect on requests to both.
func TestPageInBrowser(t *testing.T) {
	findBrowser(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis := freePort(t)
	defer startRedis(t, redis)()
	file, rules := pageFiles(t)
	to := upstream.Listener.Addr().String()
	both := []*gatewayProcess{startInstance(t, file, redis, to), startInstance(t, file, redis, to)}
	base := "http://" + both[0].admin
	b := openBrowser(t)
	b.signIn(base, exampleToken, "/")
	for i, keyboard := range []bool{false, true} {
		h := hand{b, keyboard}
		h.changes(both, base, fmt.Sprintf("acme-%d", i))
		h.brings(both, base, rules, i)
	}
	b.looks(base)
	b.clean(base)
	for _, g := range both {
		if err := g.end(); err != nil {
			t.Errorf("it ended by %v: %s", err, g.log)
		}
	}
}

// changes uses each change by hand for a client whose limit of 20 a day is used.
func (h hand) changes(both []*gatewayProcess, base, client string) {
	h.Helper()
	all := func(n int) func(*gatewayProcess) bool {
		return func(g *gatewayProcess) bool { return g.passes(1, client) == n }
	}
	both[0].passes(20, client)
	h.do(chromedp.Navigate(base + "/"))
	h.press("[data-part=kill] summary")
	h.fill("kill")
	within(h.T, "nothing is refused", both, all(1))
	h.fill("end-kill")
	within(h.T, "limits count", both, all(0))

	h.press(`nav a[href="/who"]`)
	h.write("main form:not([action^='/do']) input.mono", client)
	h.press("main .panel form button")
	h.await(`document.querySelector("[data-left]")?.textContent === "0 of 20"`)
	h.write(`form[action="/do/raise"] [name=times]`, "3")
	h.fill("raise")
	within(h.T, "40 more pass", both, all(1))
	h.fill("forgive")
	h.fill("end-raise")
	within(h.T, "what was forgiven passes", both, all(1))
	h.fill("block")
	within(h.T, "a blocked client is refused", both, func(g *gatewayProcess) bool { return g.status(client) == 403 })
	h.press(`nav a[href="/"]`)
	h.press("[data-part=active] summary")
	h.fill("end-block")
	within(h.T, "the block has ended", both, func(g *gatewayProcess) bool { return g.status(client) != 403 })
	both[0].api("POST", "/api/v1/forgive", `{"rule": "per-client", "key": ["`+client+`"], "why": "test"}`)

	h.press(`nav a[href="/try"]`)
	h.write("[name=header]", "X-Client: "+client)
	h.press("main form button")
	h.await(`document.querySelector(".verdict.good")?.textContent.includes("Would pass")`)
	h.await(`document.querySelectorAll(".tried li.ok").length === 2`)

	h.press(`nav a[href="/whatif"]`)
	h.write("[name=text]", `{"name": "per-client", "key": "header:X-Client", "limits": "5/hour fixed-window"}`)
	h.press("main form[method=post] button")
	h.await(`document.querySelector(".figure .bad") && document.querySelector(".figure .bad").textContent !== "0"`)
	h.await(`document.querySelector(".split + .charts").querySelectorAll("path.refused").length === 2`)
}

// status is that of a request of a client.
func (g *gatewayProcess) status(client string) int {
	g.t.Helper()
	q, _ := http.NewRequest("GET", "http://"+g.web+"/", nil)
	q.Header.Set("X-Client", client)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		g.t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// brings rolls back a version that lets hardly anything pass.
func (h hand) brings(both []*gatewayProcess, base, path string, i int) {
	h.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	client := fmt.Sprintf("globex-%d", i)
	h.replace(path, fmt.Sprintf("version: bad-%d\nrules: {name: per-client, key: header:X-Client, limits: 1/hour}\n", i))
	within2 := func(what string, n int) {
		h.Helper()
		for _, g := range both {
			eventually(h.T, what, func() bool { return g.passes(1, client) == n })
		}
	}
	both[0].passes(2, client)
	within2("the bad version is in use", 0)
	h.press(`nav a[href="/versions"]`)
	h.await(fmt.Sprintf(`document.querySelector("[data-part=versions] tbody th").textContent.startsWith("bad-%d")`, i))
	h.press("[data-part=versions] tr:nth-child(2) td:last-child summary")
	h.fill("rollback")
	within(h.T, "the version before is in use", both, func(g *gatewayProcess) bool { return g.passes(1, client) == 1 })
	h.replace(path, string(good))
	h.fill("end-rollback")
	h.press(`nav a[href="/events"]`)
	h.await(`document.querySelector(".events tbody").textContent.includes("end rollback")`)
}

func (h hand) replace(path, text string) {
	h.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		h.Fatal(err)
	}
}

// looks opens each view, narrow and wide, light and dark: nothing is wider than the
// screen, all is readable, and the chart moves.
func (b *browser) looks(base string) {
	b.Helper()
	axe := axeSource(b.T)
	for _, path := range []string{"/", "/rules", "/who?rule=per-client&key=acme-0", "/try", "/whatif", "/versions", "/events"} {
		for width, scheme := range map[int64]string{360: "light", 1400: "dark"} {
			b.scheme(scheme)
			b.do(chromedp.EmulateViewport(width, 800), chromedp.Navigate(base+path))
			b.await(`document.documentElement.dataset.ready !== undefined`)
			if got := ask[int64](b, `document.documentElement.scrollWidth`); got > width {
				b.Errorf("%s at %d is %d wide", path, width, got)
			}
			if axe != "" {
				b.accessible(axe, fmt.Sprintf("%s, %s, %d wide", path, scheme, width))
			}
		}
	}
	b.do(chromedp.Navigate(base + "/"))
	b.await(`document.getElementById("live").textContent === "live"`)
	drawn := ask[string](b, `document.querySelector("path.passed").getAttribute("d")`)
	b.await(`document.querySelector("path.passed").getAttribute("d") !== ` + quoted(drawn))
}

// axeSource is the script of axe-core, which scripts/need.sh installs in .bin; "" if
// it is not there and not required.
func axeSource(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../.bin/axe/node_modules/axe-core/axe.min.js")
	if err != nil {
		if os.Getenv("THROTTLE_REQUIRE") == "1" {
			t.Fatalf("NO AXE: scripts/need.sh installs it: %v", err)
		}
		t.Log("NO AXE: accessibility is NOT checked; scripts/need.sh installs it")
		return ""
	}
	return string(text)
}

// accessible holds the page to levels A and AA.
func (b *browser) accessible(axe, when string) {
	b.Helper()
	ask[any](b, axe+";0")
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r =>
		r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range found {
		b.Errorf("%s: %s", when, v)
	}
}
