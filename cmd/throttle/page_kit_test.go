//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium with one tab; it writes down what the page asks
// for and what goes wrong.
type browser struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex // guards what is below
	requests []string
	errors   []string
}

// findBrowser is the path of Chromium. Without one the test fails where
// THROTTLE_REQUIRE=1, and else is skipped.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	const missing = "NO BROWSER: the page of operators is NOT tested; install chromium or set CHROMIUM to its path"
	if os.Getenv("THROTTLE_REQUIRE") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
	)
	most := 4 * time.Minute
	if os.Getenv("THROTTLE_SOAK") == "1" {
		most = 15 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatal(err)
	}
	return b
}

// tab is one more tab of the browser.
func (b *browser) tab() *browser {
	b.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.Cleanup(cancel)
	other := &browser{T: b.T, ctx: ctx}
	if err := chromedp.Listen(ctx, other.event); err != nil {
		b.Fatal(err)
	}
	return other
}

func (b *browser) event(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, ev.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, "exception: "+ev.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, "console."+string(ev.Type))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, "log: "+ev.Entry.Text+" "+ev.Entry.URL)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// ask is the value of an expression of the page.
func ask[T any](b *browser, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// try is ask that may fail, soon: during a navigation there may be no answer.
func try[T any](b *browser, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// await waits until an expression of the page is true, over navigations.
func (b *browser) await(expression string) {
	b.Helper()
	late := time.Now().Add(20 * time.Second)
	for {
		v, err := try[bool](b, "Boolean("+expression+")")
		if err == nil && v {
			return
		}
		if time.Now().After(late) {
			text, _ := try[string](b, `location.href + "\n" + document.body.innerText`)
			b.Fatalf("waiting for %s: %v; the page is\n%s", expression, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// scheme makes the page light or dark.
func (b *browser) scheme(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// shot leaves a picture, to be looked at: go test -artifacts.
func (b *browser) shot(name string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// signIn opens the page of an instance by the form, with a token.
func (b *browser) signIn(base, token, to string) {
	b.Helper()
	b.do(chromedp.Navigate(base + to))
	b.await(`document.querySelector("[name=token]")`)
	ask[any](b, `document.querySelector("[name=token]").value = "`+token+`"`)
	ask[any](b, `document.querySelector("main button").click()`)
	b.await(`document.body.dataset.view && document.body.dataset.view !== "signin"`)
}

// clean fails for what went wrong, and for requests to anywhere else.
func (b *browser) clean(bases ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.requests {
		ours := strings.HasPrefix(u, "data:") || strings.HasPrefix(u, "about:")
		for _, base := range bases {
			ours = ours || strings.HasPrefix(u, base+"/")
		}
		if !ours {
			b.Errorf("the page asked for %s", u)
		}
	}
	for _, e := range b.errors {
		b.Error(e)
	}
	b.errors, b.requests = nil, nil
}

// TestPagePictures leaves pictures of a page that runs, for docs/page.md: of $PAGE,
// a URL, signed in with $TOKEN.
func TestPagePictures(t *testing.T) {
	base, token := os.Getenv("PAGE"), os.Getenv("TOKEN")
	if base == "" {
		t.Skip("NO PAGE: pictures are only made of $PAGE")
	}
	b := openBrowser(t)
	b.signIn(base, token, "/")
	for _, v := range []struct{ name, path string }{
		{"overview", "/"},
		{"rules", "/rules"},
		{"who", "/who?rule=per-client&key=acme"},
		{"whatif", "/whatif"},
		{"versions", "/versions"},
		{"events", "/events"},
		{"try", "/try"},
	} {
		for _, width := range []int64{1400, 360} {
			for _, scheme := range []string{"light", "dark"} {
				b.scheme(scheme)
				b.do(chromedp.EmulateViewport(width, map[int64]int64{1400: 900, 360: 740}[width], chromedp.EmulateScale(1)), chromedp.Navigate(base+v.path))
				b.await(`document.getElementById("live").textContent === "live"`)
				if v.name == "try" {
					ask[any](b, `document.querySelector("[name=path]").value = "/search"; document.querySelector("[name=header]").value = "X-Client: acme"; document.querySelector("main form button").click()`)
					b.await(`document.querySelector(".verdict")`)
				}
				b.shot(v.name + "-" + scheme + "-" + map[int64]string{1400: "1400", 360: "360"}[width])
			}
		}
	}
	b.clean(base)
}
