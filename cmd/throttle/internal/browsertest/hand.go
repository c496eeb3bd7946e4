package browsertest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Hand is how somebody uses a page: by the mouse, or by the keyboard alone.
type Hand struct {
	*Browser
	Keyboard bool
}

// Quoted is text as an expression of JavaScript.
func Quoted(text string) string {
	b, _ := json.Marshal(text) // of a string
	return string(b)
}

// To moves the focus to an element by the Tab key alone.
func (h Hand) To(selector string) {
	h.Helper()
	for range 120 {
		if Ask[bool](h.Browser, `document.activeElement.matches(`+Quoted(selector)+`)`) {
			return
		}
		h.Do(chromedp.KeyEvent(kb.Tab))
	}
	h.Fatalf("no Tab leads to %s on\n%s", selector, Ask[string](h.Browser, `document.body.innerText`))
}

// Click moves the mouse to an element and clicks there, once what the page puts in
// place of its parts moves it no more. A page may still move it before the click is
// there: what then misses it is tried again, and presses nothing else.
func (h Hand) Click(selector string) {
	h.Helper()
	var at []float64
	for range 100 {
		was := at
		at = Ask[[]float64](h.Browser, `(() => {
			const e = document.querySelector(`+Quoted(selector)+`);
			if (!e) return [];
			e.scrollIntoView({block: "center", behavior: "instant"});
			const r = e.getBoundingClientRect();
			return [r.x + Math.min(r.width, 40) / 2, r.y + r.height / 2];
		})()`)
		if len(at) > 0 && slices.Equal(at, was) && h.hits(selector, at[0], at[1]) {
			return
		}
		time.Sleep(30 * time.Millisecond)
	}
	h.Fatalf("%s does not stay where it is", selector)
}

// hits presses the button of the mouse at a place, and releases it there if that
// pressed the element, else in the corner. It reports whether the element was clicked.
func (h Hand) hits(selector string, x, y float64) bool {
	h.Helper()
	Ask[any](h.Browser, `(() => {
		const listening = window.aimed;
		window.aimed = {at: `+Quoted(selector)+`};
		if (listening) return;
		for (const kind of ["mousedown", "click"]) window.addEventListener(kind, e => {
			if (document.querySelector(window.aimed.at)?.contains(e.target)) window.aimed[kind] = true;
		}, true);
	})()`)
	h.mouse(chromedp.MousePressed, x, y)
	if !Ask[bool](h.Browser, `Boolean(window.aimed?.mousedown)`) {
		h.mouse(chromedp.MouseReleased, 0, 0)
		return false
	}
	h.mouse(chromedp.MouseReleased, x, y)
	missed, err := try[bool](h.Browser, `Boolean(window.aimed && !window.aimed.click)`)
	return err != nil || !missed // else the click has led to another page
}

// mouse presses or releases the left button at a place.
func (h Hand) mouse(what input.DispatchMouseEventType, x, y float64) {
	h.Helper()
	h.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: what, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1,
		})
		return err
	}))
}

// Press uses a button, a link, a box or what opens something.
func (h Hand) Press(selector string) {
	h.Helper()
	h.Await(`document.querySelector(` + Quoted(selector) + `)`)
	if !h.Keyboard {
		h.Click(selector)
		return
	}
	h.To(selector)
	key := kb.Enter
	if strings.Contains(selector, "checkbox") {
		key = " "
	}
	h.Do(chromedp.KeyEvent(key))
}

// Write types text into a field, in place of what is there.
func (h Hand) Write(selector, text string) {
	h.Helper()
	h.Await(`document.querySelector(` + Quoted(selector) + `)`)
	focused := `document.activeElement.matches(` + Quoted(selector) + `)`
	for tries := 0; tries < 10 && !Ask[bool](h.Browser, focused); tries++ {
		if h.Keyboard {
			h.To(selector)
		} else {
			h.Click(selector)
		}
	}
	Ask[any](h.Browser, `document.querySelector(`+Quoted(selector)+`).select()`)
	h.Do(chromedp.KeyEvent(text))
}
