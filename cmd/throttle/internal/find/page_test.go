package find

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// The page can be read by all, narrow and wide, light and dark, without a mouse.
func TestPageInBrowser(t *testing.T) {
	b := browsertest.Open(t)
	var page bytes.Buffer
	path := filepath.Join(t.TempDir(), "knee.html")
	if err := found(t, func(f *findings) { f.Doubt = "late" }).writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	address := (&url.URL{Scheme: "file", Path: path}).String()
	axe := b.Axe()
	for width, scheme := range map[int64]string{360: "light", 361: "dark", 1400: "dark", 1401: "light"} {
		b.Scheme(scheme)
		b.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(address))
		if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("at %d it is %d wide", width, got)
		}
		if got := browsertest.Ask[float64](b, `Math.min(...[...document.querySelectorAll(".charts text")].map(t => t.getBoundingClientRect().height))`); got < 9 {
			t.Errorf("at %d a label of a chart is %.1f high", width, got)
		}
		if axe != "" {
			b.Accessible(axe, fmt.Sprintf("%s, %d wide", scheme, width))
		}
		b.Shot(fmt.Sprintf("knee-%s-%d", scheme, width))
	}
	b.Clean(address)
}
