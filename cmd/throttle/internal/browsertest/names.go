package browsertest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Control is a button, a form or a disclosure in the accessibility tree.
type Control struct {
	Role, Name string // as a screen reader says them
	Does       string // the form that it sends, or the text that it opens
}

var controls = []string{"button", "form", "DisclosureTriangle"}

// does is a function of an element of the page. The reason, which is typed, does not count.
const does = `function() {
	const form = this.form ?? (this.matches("form") ? this : this.parentElement.querySelector("form"));
	if (!form) return this.closest("details, form")?.textContent ?? this.textContent;
	return form.getAttribute("action") + " " + new URLSearchParams([...new FormData(form)].filter(([name]) => name !== "why"));
}`

// Controls are those of the page as the accessibility tree has them, with all details open.
func (b *Browser) Controls() (all []Control) {
	b.Helper()
	Ask[any](b, `for (const e of document.querySelectorAll("details")) e.open = true; 0`)
	b.Do(chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		tree, err := cdp.Call(ctx, to, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			return err
		}
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil || n.Name == nil {
				continue
			}
			c := Control{Role: text(n.Role.Value), Name: text(n.Name.Value)}
			if !slices.Contains(controls, c.Role) {
				continue
			}
			if c.Does, err = doneBy(ctx, to, n.BackendDOMNodeID); err != nil {
				return err
			}
			all = append(all, c)
		}
		return nil
	}))
	return all
}

// doneBy is what an element does.
func doneBy(ctx context.Context, to *chromedp.Target, id cdp.BackendNodeID) (string, error) {
	is, err := cdp.Call(ctx, to, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id})
	if err != nil {
		return "", err
	}
	said, err := cdp.Call(ctx, to, runtime.CallFunctionOn, runtime.CallFunctionOnParams{FunctionDeclaration: does, ObjectID: is.Object.ObjectID})
	if err != nil {
		return "", err
	}
	return text(said.Result.Value), nil
}

// text is a JSON string; "" for anything else.
func text(raw []byte) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}
