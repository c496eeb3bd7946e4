//go:build unix

package main

import (
	"fmt"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// TestPageNames: no two buttons, forms or details of a view have the same name and do
// different things, so that a screen reader tells which limit a button ends.
func TestPageNames(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startWith(t, "version: v1\nrules: [{name: per-client, key: header:X-Client, limits: 9/hour}, {name: search, key: header:X-Client, limits: 9/hour}]\n")
	for _, name := range []string{"acme", "globex"} {
		for _, rule := range []string{"per-client", "search"} {
			g.api("PUT", "/api/v1/raise", fmt.Sprintf(`{"rule": %q, "key": [%q], "times": 2, "for": "1h", "why": "test"}`, rule, name))
		}
		g.api("PUT", "/api/v1/block", fmt.Sprintf(`{"entry": "client=%s", "for": "1h", "why": "test"}`, name))
		g.api("PUT", "/api/v1/exempt", fmt.Sprintf(`{"entry": "client=%s", "for": "1h", "why": "test"}`, name))
	}
	signIn(b, "http://"+g.admin, exampleToken, "/")
	named := map[string]int{}
	for _, path := range []string{"/", "/rules", "/who?rule=per-client&key=acme", "/try", "/whatif", "/versions", "/events"} {
		b.Go("http://" + g.admin + path)
		b.Await(isLive)
		what := map[string]string{}
		for _, c := range b.Controls() {
			is := c.Role + " " + c.Name
			if c.Name == "" && c.Role != "form" {
				t.Errorf("%s: a %s without a name does %s", path, c.Role, c.Does)
			}
			if other, known := what[is]; known && other != c.Does {
				t.Errorf("%s: two are %q, and do\n%s\n%s", path, is, other, c.Does)
			}
			what[is] = c.Does
			named[c.Role]++
		}
	}
	if named["button"] < 20 || named["form"] < 10 || named["DisclosureTriangle"] < 15 {
		t.Errorf("the accessibility tree has %v", named)
	}
	b.Clean("http://" + g.admin + "/")
}

// TestPageRowsStay: of a list in which something changes, rows that did not are the very
// elements that they were, so that a page that is open all day leaves little behind.
func TestPageRowsStay(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	signIn(b, "http://"+g.admin, exampleToken, "/")
	b.Await(isLive)
	for _, name := range []string{"b", "c", "a"} {
		g.api("PUT", "/api/v1/block", fmt.Sprintf(`{"entry": "client=%s", "for": "1h", "why": "test"}`, name))
		b.Await(fmt.Sprintf(`document.querySelector("[data-part=active]").textContent.includes("client=%s")`, name))
		if name == "c" {
			browsertest.Ask[any](b, `for (const row of document.querySelectorAll("[data-part=active] tbody tr")) row.marked = true; 0`)
		}
	}
	g.api("DELETE", "/api/v1/block", `{"entry": "client=b", "why": "test"}`)
	b.Await(`!document.querySelector("[data-part=active]").textContent.includes("client=b")`)
	const rows = `[...document.querySelectorAll("[data-part=active] tbody tr")].map(row => row.querySelector("td").textContent + " " + row.marked).join(", ")`
	if got := browsertest.Ask[string](b, rows); got != "client=a undefined, client=c true" {
		t.Errorf("rows and whether they stayed: %s", got)
	}
	b.Clean("http://" + g.admin + "/")
}
