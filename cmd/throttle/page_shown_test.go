//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// cut are the placeholders that do not fit into their fields.
const cut = `(() => {
	const on = document.createElement("canvas").getContext("2d"), all = [];
	for (const e of document.querySelectorAll("details")) e.open = true;
	for (const e of document.querySelectorAll("input[placeholder]")) {
		const style = getComputedStyle(e), room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
		on.font = style.font;
		if (on.measureText(e.placeholder).width > room) all.push(e.name + ": " + e.placeholder);
	}
	return all.join(", ");
})()`

// TestPagePlaceholders: on a phone and on a desk, what a field is to hold can be read.
func TestPagePlaceholders(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	signIn(b, "http://"+g.admin, exampleToken, "/")
	for _, width := range []int64{360, 1400} {
		for _, path := range []string{"/", "/who?rule=per-client&key=acme", "/try", "/whatif", "/versions"} {
			b.Do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("http://"+g.admin+path))
			b.Await(`document.documentElement.dataset.ready !== undefined`)
			if got := browsertest.Ask[string](b, cut); got != "" {
				t.Errorf("%s at %d: these placeholders are cut: %s", path, width, got)
			}
		}
	}
	b.Clean("http://" + g.admin + "/")
}

// clipped are rates of the rules, of each length, that do not fit into their places.
const clipped = `(() => {
	const all = [];
	for (const e of document.querySelectorAll(".now")) for (const text of ["9.9", "999", "9,999", "99.9k", "999k", "9.99M"]) {
		const was = e.textContent;
		e.textContent = text;
		if (e.clientWidth && (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight)) all.push(e.dataset.of + ": " + text);
		e.textContent = was;
	}
	return all.join(", ");
})()`

// TestPageRatesFit: the longest rates can be read whole, on a phone and on a desk, and the
// table is no wider for them.
func TestPageRatesFit(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	signIn(b, "http://"+g.admin, exampleToken, "/rules")
	for _, width := range []int64{360, 1400} {
		b.Do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("http://"+g.admin+"/rules"))
		b.Await(`document.documentElement.dataset.ready !== undefined`)
		if got := browsertest.Ask[string](b, clipped); got != "" {
			t.Errorf("at %d: these rates are cut: %s", width, got)
		}
		if got := browsertest.Ask[int64](b, `document.querySelector(".scroll").scrollWidth - document.querySelector(".scroll").clientWidth`); got > 0 {
			t.Errorf("at %d: the table is %d wider than its place", width, got)
		}
	}
	b.Clean("http://" + g.admin + "/")
}

// drawsAlike says whether the script has drawn the charts of rules as the server does, in
// which slots of ten seconds with refusals differ in their number of ticks: means of those
// are not in proportion to their sums. Both are of the same tick in most tries.
const drawsAlike = `Promise.all([fetch("/rules").then(r => r.text()), fetch("/api/v1/series").then(r => r.json())]).then(([text, series]) => {
	const drawn = from => [...from.querySelectorAll("svg[data-rule] path")].map(e => e.getAttribute("d")).join("; ");
	const slots = Object.values(Object.groupBy(series.ticks, t => Math.floor(t.id / 10)));
	const used = slots.filter(all => all.some(t => t.rules?.["per-client"]?.refused));
	const uneven = new Set(used.map(all => all.length)).size > 1;
	return uneven && drawn(new DOMParser().parseFromString(text, "text/html")) === drawn(document);
})`

// TestPageSparks: the script draws the charts and the rates of rules as the server does.
func TestPageSparks(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startWith(t, "version: v1\nrules: [{name: per-client, key: header:X-Client, limits: 5/hour}, {name: toString, key: header:X-Client, limits: 9/hour}]\n")
	signIn(b, "http://"+g.admin, exampleToken, "/rules")
	b.Await(isLive)
	clients := 0
	eventuallyIn(t, time.Minute, "the script draws slots of several lengths as the server does", func() bool {
		clients++
		g.passes(9, fmt.Sprint("client-", clients))
		return browsertest.Ask[bool](b, drawsAlike)
	})
	b.Clean("http://" + g.admin + "/")
}

// TestPageClock: a page tells when something ends by the clock of the server, whatever
// that of its reader's machine says.
func TestPageClock(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	g.api("PUT", "/api/v1/block", `{"entry": "client=acme", "for": "2h", "why": "test"}`)
	signIn(b, "http://"+g.admin, exampleToken, "/versions")
	before(b, `const now = Date.now; Date.now = () => now() + 3600e3`)
	b.Go("http://" + g.admin + "/")
	b.Await(isLive)
	b.Await(`/^in (1 h 59|2 h 0) min$/.test(document.querySelector("[data-part=active] time").textContent)`)
	b.Clean("http://" + g.admin + "/")
}

// before runs a script before those of the pages that the tab opens.
func before(b *browsertest.Browser, script string) {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// TestPageTabsPlain: beyond this machine plain HTTP has no locks. Seven tabs of a browser,
// which opens six connections to a host, reach the API all the same, and go on when the
// one that reads for all is closed.
func TestPageTabsPlain(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	base := "http://" + g.admin
	signIn(b, base, exampleToken, "/versions")
	tabs := []*browsertest.Browser{b}
	for len(tabs) < 7 {
		tabs = append(tabs, b.Tab())
	}
	for _, one := range tabs {
		before(one, `Object.defineProperty(Navigator.prototype, "locks", {value: undefined}); const real = EventSource; window.EventSource = function(at) { return window.stream = new real(at); }; EventSource.CLOSED = 2`)
		one.Go(base + "/")
		one.Await(isLive)
	}
	reads := func() (all []int) {
		for i, one := range tabs {
			if got := browsertest.Ask[int](one, `fetch("/api/v1/status").then(r => r.status)`); got != 200 {
				t.Errorf("tab %d: the API answers %d", i, got)
			}
			if browsertest.Ask[bool](one, `Boolean(window.stream && window.stream.readyState !== 2)`) {
				all = append(all, i)
			}
		}
		return all
	}
	var now []int
	eventually(t, "one tab reads for all", func() bool { now = reads(); return len(now) == 1 })
	first := tabs[now[0]]
	first.Go("about:blank")
	tabs = slices.Delete(tabs, now[0], now[0]+1)
	eventually(t, "another one reads", func() bool { return len(reads()) == 1 })
	for _, one := range tabs {
		passed := browsertest.Ask[string](one, drawnNow)
		one.Await(drawnNow + " !== " + browsertest.Quoted(passed))
	}
}

const drawnNow = `document.querySelector("path.passed").getAttribute("d")`

// TestPageReasonFits: a reason with a long address leaves the page as wide as the screen, and
// each table as wide as its place: what ends the change stands behind the reason.
func TestPageReasonFits(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	long := "https://tickets.example.org/" + strings.Repeat("x", 200)
	for what, body := range map[string]string{
		"raise":  `"rule": "per-client", "key": "acme", "times": 2`,
		"block":  `"entry": "header:X-Client=acme"`,
		"exempt": `"entry": "header:X-Client=acme"`,
	} {
		g.api("PUT", "/api/v1/"+what, `{`+body+`, "for": "1h", "why": "`+long+`"}`)
	}
	signIn(b, "http://"+g.admin, exampleToken, "/")
	for _, width := range []int64{360, 1400} {
		for _, path := range []string{"/", "/rules", "/who?rule=per-client&key=acme", "/versions", "/events"} {
			b.Do(chromedp.EmulateViewport(width, 800), chromedp.Navigate("http://"+g.admin+path))
			b.Await(`document.documentElement.dataset.ready !== undefined && document.body.textContent.includes("tickets.example.org")`)
			if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%s at %d is %d wide", path, width, got)
			}
			if got := browsertest.Ask[int64](b, `Math.max(0, ...[...document.querySelectorAll(".scroll")].filter(e => e.textContent.includes("tickets")).map(e => e.scrollWidth - e.clientWidth))`); got > 0 {
				t.Errorf("%s at %d: a table is %d wider than its place", path, width, got)
			}
		}
	}
	b.Clean("http://" + g.admin + "/")
}

// TestPageKeyParts: the parts of a key stand in their order, whatever the direction in which
// each is read.
func TestPageKeyParts(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startWith(t, "version: v1\nrules: {name: two, key: header:X-Client+path:1, limits: 1/hour}\n")
	g.api("PUT", "/api/v1/raise", `{"rule": "two", "key": ["שלום", "127"], "times": 2, "for": "1h", "why": "test"}`)
	signIn(b, "http://"+g.admin, exampleToken, "/")
	for path, parts := range map[string]string{"/": "td.mono bdi", "/who?rule=two&key=שלום&key=127": "#left .mono"} {
		b.Do(chromedp.Navigate("http://" + g.admin + path))
		b.Await(`document.documentElement.dataset.ready !== undefined`)
		at := browsertest.Ask[[]float64](b, `[...document.querySelectorAll("`+parts+`")].map(e => e.getBoundingClientRect().left)`)
		if len(at) != 2 || at[0] >= at[1] {
			t.Errorf("%s: the parts are at %v", path, at)
		}
	}
	b.Clean("http://" + g.admin + "/")
}
