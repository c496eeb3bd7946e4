//go:build unix

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// TestPageQuotas: the page of operators shows what two real Envoys are assigned of a limit, and
// what they use of it, as they do; readable by all, narrow and wide, light and dark.
func TestPageQuotas(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	f := quotaFront(t, 2, 1, "memory:")
	defer f.process(0)()
	base := "http://" + f.admins[0]
	eventually(t, "the page is there", func() bool { return answers(f.admins[0]) })
	f.demands(0, "jane", 200)
	f.demands(1, "jane", 30)
	f.demands(0, "john", 5)
	b.Do(chromedp.Navigate(base + "/quotas"))
	b.AwaitIn(reportsWithin, `document.querySelectorAll("tbody").length === 2 && document.querySelectorAll("tbody .under").length === 3`)
	const of = `[...document.querySelectorAll("tbody:first-of-type .under")].map(e => Number(e.children[3].textContent) + Number(e.children[4].textContent))`
	b.AwaitIn(reportsWithin, `(d => d[0] > 150 && d[0] < 250 && d[1] > 20 && d[1] < 40)(`+of+`)`)
	b.AwaitIn(reportsWithin, `/^[5-8][0-9]$/.test(document.querySelector("tbody .under").children[1].textContent)`)
	axe := b.Axe()
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			b.Do(chromedp.EmulateViewport(width, 844), chromedp.Navigate(base+"/quotas"))
			b.Await(`document.getElementById("live").textContent === "live"`)
			if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("at %d it is %d wide", width, got)
			}
			if wide := browsertest.Ask[bool](b, `(e => e.scrollWidth > e.clientWidth)(document.querySelector(".scroll"))`); wide {
				t.Errorf("at %d the table is wider than its room", width)
			}
			if axe != "" {
				b.Accessible(axe, fmt.Sprintf("quotas, %s, %d wide", scheme, width))
			}
			b.Shot(fmt.Sprintf("quotas-%s-%d", scheme, width))
		}
	}
	b.Clean(base)
}

// reportsWithin is for what comes with the reports of Envoy.
const reportsWithin = time.Minute
