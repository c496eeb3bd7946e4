//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
	"github.com/throttle-go/throttle/throttlepage"
)

// TestCallersPageInBrowser opens the page of callers, below a prefix, while calls
// wait for a server that refuses: it is live, nothing in it is a name's HTML, it is
// readable by all, narrow and wide, light and dark, and it asks for nothing of
// anywhere else. A hidden tab reads no stream.
func TestCallersPageInBrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer refusing.Close()
	const hostile = `<script>document.title = "taken"</script><img src=x onerror='document.title = "taken"'>`
	transport := &throttlehttp.Transport{Name: func(*http.Request) string { return hostile }}
	slow := &throttle.Throttle{Control: &pace.Fixed{Rate: 0.001}, MaxInFlight: 2}
	page := &throttlepage.Page{
		Throttles: map[string]*throttle.Throttle{"slow": slow},
		Groups:    map[string]*throttle.Group{"web": transport.Group(), hostile: new(throttle.Group)},
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/throttle/", http.StripPrefix("/debug/throttle", page))
	site := httptest.NewServer(mux)
	defer site.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = (&http.Client{Transport: transport}).Do(must(http.NewRequestWithContext(ctx, "GET", refusing.URL, nil)))
	}()
	wait := func(key string) {
		o := throttle.CallOptions{Key: key, Needs: []throttle.Need{{Scope: "tokens"}}}
		go func() { _ = slow.Do(throttle.WithOptions(ctx, o), func(context.Context) error { return nil }) }()
	}
	wait("first")
	wait("second")
	base := site.URL + "/debug/throttle/"
	axe := b.Axe()
	for width, scheme := range map[int64]string{360: "light", 361: "dark", 1400: "dark", 1401: "light"} {
		b.Scheme(scheme)
		b.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(base))
		b.Await(`document.getElementById("live").textContent === "live"`)
		b.Await(`document.body.innerText.includes("as the server asked")`)
		if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("at %d it is %d wide", width, got)
		}
		if axe != "" {
			b.Accessible(axe, fmt.Sprintf("%s, %d wide", scheme, width))
		}
		b.Shot(fmt.Sprintf("callers-%s-%d", scheme, width))
	}
	if browsertest.Ask[bool](b, `document.title === "taken" || document.images.length > 0 || document.scripts.length !== 1`) {
		t.Error("a name became part of the page")
	}
	if !browsertest.Ask[bool](b, `document.querySelector(".scope bdi").textContent === "tokens" && document.body.innerText.includes(`+browsertest.Quoted(hostile)+`)`) {
		t.Error("a name is not shown:\n" + browsertest.Ask[string](b, `document.body.innerText`))
	}

	const waiting = `document.querySelector("td[data-label=Waiting] strong").textContent`
	before := browsertest.Ask[string](b, waiting)
	browsertest.Ask[any](b, `document.querySelector("header a").focus(); 0`)
	wait("third")
	b.Await(waiting + ` !== "` + before + `"`)
	if !browsertest.Ask[bool](b, `document.activeElement.matches("header a")`) {
		t.Error("the focus was lost")
	}
	leaves(b, base)
	b.Clean(site.URL)
	withoutScript(b, base)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// leaves closes the tab's stream by hiding it, and sees another open once it is
// shown again.
func leaves(b *browsertest.Browser, base string) {
	b.Helper()
	streams := func() (n int) {
		for _, u := range b.Requests() {
			if u == base+"events" {
				n++
			}
		}
		return n
	}
	hide := func(hidden bool) {
		browsertest.Ask[any](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %t, configurable: true}); document.dispatchEvent(new Event("visibilitychange")); 0`, hidden))
	}
	hide(true)
	b.Await(`document.getElementById("live").textContent === "paused"`)
	at, n := `document.querySelector("main time").dateTime`, streams()
	seen := browsertest.Ask[string](b, at)
	time.Sleep(2500 * time.Millisecond) // of real time, as the browser has no other
	if got := browsertest.Ask[string](b, at); got != seen || streams() != n {
		b.Errorf("a hidden page went from %s to %s, with %d streams after %d", seen, got, streams(), n)
	}
	hide(false)
	b.Await(at + ` !== "` + seen + `"`)
	if got := streams(); got < n+1 || got > n+3 { // a stream that broke is opened again
		b.Errorf("%d streams after %d, want one more, or up to three", got, n)
	}
}

// withoutScript reads the page as a browser without scripts shows it.
func withoutScript(b *browsertest.Browser, base string) {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}), chromedp.Navigate(base))
	if got := browsertest.Ask[string](b, `document.getElementById("live").textContent + document.querySelectorAll("tbody tr").length`); got != "4" {
		b.Errorf("live and rows %q, want none and 4", got)
	}
}

// TestCallersPagePictures leaves pictures of a page that runs, for
// docs/callers-page.md: of $CALLERS_PAGE, a URL.
func TestCallersPagePictures(t *testing.T) {
	base := os.Getenv("CALLERS_PAGE")
	if base == "" {
		t.Skip("NO PAGE: pictures are only made of $CALLERS_PAGE")
	}
	b := browsertest.Open(t)
	for _, width := range []int64{1400, 360} {
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			b.Do(chromedp.EmulateViewport(width, map[int64]int64{1400: 850, 360: 800}[width], chromedp.EmulateScale(1)), chromedp.Navigate(base))
			b.Await(`document.getElementById("live").textContent === "live"`)
			b.Shot(fmt.Sprintf("callers-%s-%d", scheme, width))
		}
	}
	b.Clean(base[:len(base)-1])
}
