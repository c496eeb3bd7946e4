//go:build unix

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

const alone = `version: 1
rules: {file: rules.yaml, overlay: overlay.json}
gateway: {listen: "${LISTEN}", routes: {to: "http://${UPSTREAM}"}}
admin: {listen: "${ADMIN}", token: "${TOKEN}"}
drain: {delay: 0s}
`

// startAlone starts one instance with its state in files.
func startAlone(t *testing.T) *gatewayProcess {
	t.Helper()
	return startWith(t, "version: v1\nrules: {name: per-client, key: header:X-Client, limits: 1/hour}\n")
}

// startWith is startAlone with other rules.
func startWith(t *testing.T, rules string) *gatewayProcess {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"serve.yaml": alone, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return startInstance(t, filepath.Join(dir, "serve.yaml"), "-", upstream.Listener.Addr().String())
}

const isLive = `document.getElementById("live")?.textContent === "live"`

// TestPageTabs: seven tabs share one stream, so that each still reaches the API; a tab
// that was hidden has no gap; what ends by itself does so on the page, too.
func TestPageTabs(t *testing.T) {
	t.Parallel()
	browsertest.Find(t)
	g := startAlone(t)
	base := "http://" + g.admin
	b := browsertest.Open(t)
	signIn(b, base, exampleToken, "/")
	ends := g.killsFor20s(b) // which is waited for below
	tabs := []*browsertest.Browser{b}
	for len(tabs) < 7 {
		one := b.Tab()
		one.Do(chromedp.Navigate(base + "/"))
		tabs = append(tabs, one)
	}
	streams := 0
	for i, one := range tabs {
		one.Await(isLive)
		if got, err := chromedp.Run(one.Ctx, chromedp.Evaluate[int](`fetch("/api/v1/status").then(r => r.status)`, chromedp.EvalAwaitPromise)); err != nil || got != 200 {
			t.Errorf("tab %d: the API answers %d, %v", i, got, err)
		}
		for _, u := range one.Requests() {
			if strings.Contains(u, "/api/v1/stream") {
				streams++
			}
		}
	}
	if streams > 4 { // that of the tab before it was signed in may have ended; one that broke is opened again
		t.Errorf("seven tabs opened %d streams", streams)
	}
	hides(tabs[6])
	ends()
	g.kills(tabs[:3])
	for _, one := range tabs {
		one.Clean(base + "/")
	}
	browsertest.Ask[any](tabs[1], `fetch("/signout", {method: "POST"}).then(() => 0); 0`)
	for _, one := range tabs[:3] {
		one.Await(`document.body.dataset.view === "signin"`)
	}
	if err := g.end(); err != nil {
		t.Errorf("it ended by %v: %s", err, g.log)
	}
}

// TestPageStreamsFull: where all streams are taken by others, a page goes on by asking for
// the ticks now and then, and reads a stream when one is free.
func TestPageStreamsFull(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	signIn(b, "http://"+g.admin, exampleToken, "/events") // and the page reads its stream
	b.Await(isLive)
	b.Go("about:blank")
	ctx, leave := context.WithCancel(t.Context())
	for n := 0; n < 32; { // that of the page may not have ended yet
		q, _ := http.NewRequestWithContext(ctx, "GET", "http://"+g.admin+"/api/v1/stream", nil)
		q.Header.Set("Authorization", "Bearer "+exampleToken)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if a.StatusCode == 200 {
			n++
		}
	}
	b.Go("http://" + g.admin + "/")
	b.Await(`document.getElementById("live").textContent === "reconnecting"`)
	for range 2 {
		drawn := browsertest.Ask[string](b, drawnNow)
		b.Await(drawnNow + ` !== ` + browsertest.Quoted(drawn))
	}
	if browsertest.Ask[bool](b, isLive) {
		t.Error("it says that it is live, without a stream")
	}
	leave()
	b.Await(isLive)
	b.ForgiveNetwork() // that the stream was refused
	b.Clean("http://"+g.admin+"/", "about:")
}

// hides hides a tab for a time, and sees it draw what it missed.
func hides(last *browsertest.Browser) {
	last.Helper()
	last.Await(`document.querySelector("path.passed").getAttribute("d").length > 20`)
	hide := func(hidden string) {
		browsertest.Ask[any](last, `Object.defineProperty(document, "hidden", {value: `+hidden+`, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`)
	}
	hide("true")
	last.Await(`document.getElementById("live").textContent === "paused"`)
	drawn := browsertest.Ask[string](last, `document.querySelector("path.passed").getAttribute("d")`)
	time.Sleep(6 * time.Second) // three slots of the chart
	if got := browsertest.Ask[string](last, `document.querySelector("path.passed").getAttribute("d")`); got != drawn {
		last.Error("a hidden tab goes on drawing")
	}
	// What it missed comes after the ticks of the next seconds.
	browsertest.Ask[any](last, `const soon = fetch; fetch = (...all) => soon(...all).then(r => new Promise(done => setTimeout(() => done(r), String(all[0]).includes("/series") ? 3000 : 0)))`)
	hide("false")
	last.Await(`document.querySelector("path.passed").getAttribute("d") !== ` + browsertest.Quoted(drawn))
	// No gap but those that the server draws too, which was late for a tick.
	browsertest.Ask[any](last, `const areas = page => page.querySelector("path.passed").getAttribute("d").split("Z").length, drawing = setInterval(async () => {
		const text = await (await fetch("/")).text();
		document.body.dataset.gaps = areas(document) - areas(new DOMParser().parseFromString(text, "text/html"));
	}, 200)`)
	last.Await(`document.body.dataset.gaps === "0"`)
	browsertest.Ask[any](last, `clearInterval(drawing)`)
}

const banner = `document.querySelector(".banner.bad")?.textContent.includes("kill switch")`

// kills uses the kill switch, which tabs say until it is off; "acme" has used its limit.
func (g *gatewayProcess) kills(tabs []*browsertest.Browser) {
	g.t.Helper()
	used := tabs[2]
	used.Go("http://" + g.admin + "/versions")
	used.Await(isLive)
	browsertest.Hand{Browser: used}.Press("[data-part=log] summary")
	g.api("PUT", "/api/v1/kill", `{"for": "5m", "why": "ticket 4712"}`)
	if n := g.passes(1, "acme"); n != 1 {
		g.t.Error("the kill switch lets nothing pass")
	}
	for _, one := range tabs {
		one.Await(banner)
	}
	// What was being used when it changed is changed when it is used no more.
	const log = `document.querySelector("[data-part=log]")`
	if browsertest.Ask[bool](used, log+`.textContent.includes("ticket 4712") || !`+log+`.querySelector("details[open]")`) {
		g.t.Error("a part of the page changes while it is used")
	}
	browsertest.Hand{Browser: used}.Press("[data-part=log] summary")
	browsertest.Ask[any](used, `document.activeElement.blur()`)
	used.Await(log + `.textContent.includes("ticket 4712")`)
	g.api("DELETE", "/api/v1/kill", `{"why": "test"}`)
	for _, one := range tabs {
		one.Await("!" + banner)
	}
}

// killsFor20s uses the kill switch, and returns how to wait for its end.
func (g *gatewayProcess) killsFor20s(tab *browsertest.Browser) (ends func()) {
	g.t.Helper()
	g.passes(1, "acme")
	g.api("PUT", "/api/v1/kill", `{"for": "20s", "why": "test"}`)
	tab.Await(banner)
	return func() {
		g.t.Helper()
		tab.AwaitIn(time.Minute, "!"+banner)
		if n := g.passes(1, "acme"); n != 0 {
			g.t.Error("the kill switch did not end by itself")
		}
	}
}
