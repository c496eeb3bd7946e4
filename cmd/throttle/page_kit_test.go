//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// hand is how an operator uses the page.
type hand struct{ browsertest.Hand }

// signIn opens the page of an instance by the form, with a token.
func signIn(b *browsertest.Browser, base, token, to string) {
	b.Helper()
	b.Do(chromedp.Navigate(base + to))
	b.Await(`document.querySelector("[name=token]")`)
	browsertest.Ask[any](b, `document.querySelector("[name=token]").value = "`+token+`"`)
	browsertest.Ask[any](b, `document.querySelector("main button").click()`)
	b.Await(`document.body.dataset.view && document.body.dataset.view !== "signin"`)
}

// TestPagePictures leaves pictures of a page that runs, for docs/page.md: of $PAGE,
// a URL, signed in with $TOKEN.
func TestPagePictures(t *testing.T) {
	base, token := os.Getenv("PAGE"), os.Getenv("TOKEN")
	if base == "" {
		t.Skip("NO PAGE: pictures are only made of $PAGE")
	}
	b := browsertest.Open(t)
	signIn(b, base, token, "/")
	for _, v := range []struct{ name, path string }{
		{"overview", "/"},
		{"rules", "/rules"},
		{"who", "/who?rule=per-client&key=acme&by=all"},
		{"whatif", "/whatif"},
		{"versions", "/versions"},
		{"events", "/events"},
		{"try", "/try"},
	} {
		for _, width := range []int64{1400, 360} {
			for _, scheme := range []string{"light", "dark"} {
				b.Scheme(scheme)
				b.Do(chromedp.EmulateViewport(width, map[int64]int64{1400: 640, 360: 740}[width], chromedp.EmulateScale(1)), chromedp.Navigate(base+v.path))
				b.Await(`document.getElementById("live").textContent === "live"`)
				if v.name == "try" {
					browsertest.Ask[any](b, `document.querySelector("[name=path]").value = "/search"; document.querySelector("[name=header]").value = "X-Client: acme"; document.querySelector("main form button").click()`)
					b.Await(`document.querySelector(".verdict")`)
				}
				if width == 1400 { // all of it
					b.Do(chromedp.EmulateViewport(width, min(max(browsertest.Ask[int64](b, `document.documentElement.scrollHeight`), 640), 1400), chromedp.EmulateScale(1)))
				}
				b.Shot(v.name + "-" + scheme + "-" + map[int64]string{1400: "1400", 360: "360"}[width])
			}
		}
	}
	b.Clean(base + "/")
}
