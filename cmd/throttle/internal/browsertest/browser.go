// Package browsertest drives a headless Chromium in tests: it opens pages, uses them
// by mouse and by keyboard, and reports what they ask for, what goes wrong in them,
// and what of them not everybody can use.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// Browser is a tab of a headless Chromium. It writes down what the page in it asks
// for and what goes wrong there. Its methods end the test when Chromium fails; they
// are called by the goroutine of the test.
type Browser struct {
	*testing.T
	// Ctx is that of the tab, for chromedp.
	Ctx context.Context

	mu       sync.Mutex // guards what is below
	requests []string
	errors   []string
}

// Find is the path of Chromium. Without one the test fails where THROTTLE_REQUIRE=1,
// and else is skipped.
func Find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	const missing = "NO BROWSER: pages are NOT tested; install chromium or set CHROMIUM to its path"
	if os.Getenv("THROTTLE_REQUIRE") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// Open starts a Chromium of its own with one tab, 1400 pixels wide, that ends with
// the test: at the latest after 4 minutes, or 15 where THROTTLE_SOAK=1.
func Open(t *testing.T) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(Find(t)), chromedp.NoSandbox, chromedp.DisableGPU,
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
	return open(t, ctx)
}

// Tab opens one more tab in the same browser.
func (b *Browser) Tab() *Browser {
	b.Helper()
	return open(b.T, b.Ctx)
}

func open(t *testing.T, in context.Context) *Browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	b := &Browser{T: t, Ctx: ctx}
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Browser) event(ev any) {
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
		b.errors = append(b.errors, string(ev.Entry.Source)+": "+ev.Entry.Text+" "+ev.Entry.URL)
	}
}

// Requests are the addresses that the tab asked for since Clean, data: among them.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// Clean fails the test for what went wrong in the tab since the last call, and for
// requests to an address that begins with none of ours.
func (b *Browser) Clean(ours ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.requests {
		known := false
		for _, start := range append(ours, "data:", "about:") {
			known = known || strings.HasPrefix(u, start)
		}
		if !known {
			b.Errorf("the page asked for %s", u)
		}
	}
	for _, e := range b.errors {
		b.Error(e)
	}
	b.errors, b.requests = nil, nil
}

// ForgiveNetwork takes what Chromium itself said of the network, as that an answer broke
// off, from what went wrong in the tab.
func (b *Browser) ForgiveNetwork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = slices.DeleteFunc(b.errors, func(e string) bool { return strings.HasPrefix(e, "network: ") })
}

// Do takes steps of chromedp within a minute.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// Go opens an address.
func (b *Browser) Go(address string) {
	b.Helper()
	b.Do(chromedp.Navigate(address))
}

// Ask is the value of an expression of the page; where that is a promise, what it
// comes to.
func Ask[T any](b *Browser, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// try is Ask that may fail, soon: during a navigation there may be no answer.
func try[T any](b *Browser, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.Ctx, 5*time.Second)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// Await waits until an expression of the page is true, over navigations, at most 20
// seconds.
func (b *Browser) Await(expression string) {
	b.Helper()
	b.AwaitIn(20*time.Second, expression)
}

// AwaitIn is Await with a limit of its own.
func (b *Browser) AwaitIn(most time.Duration, expression string) {
	b.Helper()
	late := time.Now().Add(most)
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

// Scheme makes the page "light" or "dark".
func (b *Browser) Scheme(name string) {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// Shot leaves a picture, to be looked at: go test -artifacts.
func (b *Browser) Shot(name string) {
	b.Helper()
	png, err := chromedp.Run(b.Ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
