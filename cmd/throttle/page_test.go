//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

const readToken = "0123456789abcdef-reading"

// fill writes a reason into a form and sends it.
func (h hand) fill(action string) {
	h.Helper()
	h.why(action)
	h.send(action)
}

// why writes the reason of a form.
func (h hand) why(action string) {
	h.Helper()
	h.Write(form(action)+"[name=why]", "test of "+action)
}

// send sends a form, and waits for the page that says that it is done.
func (h hand) send(action string) {
	h.Helper()
	if action == "kill" {
		h.Press(form(action) + "[type=checkbox]")
	}
	h.Press(form(action) + "button")
	h.Await(`document.querySelector(".banner.good") && location.search.includes("done=` + action + `")`)
}

// form selects what is in a form.
func form(action string) string { return `form[action="/do/` + action + `"] ` }

// pageFiles are those of an instance whose rules a test changes.
func pageFiles(t *testing.T) (file, rules string) {
	t.Helper()
	file = patientExample(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `  token: "${TOKEN}"`, "  token: \"${TOKEN}\"\n  read_token: "+readToken, 1))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	rules = filepath.Join(filepath.Dir(file), "rules.yaml")
	text, err = os.ReadFile(rules)
	if err != nil || !strings.Contains(string(text), "20/hour fixed-window") {
		t.Fatalf("%v: %s", err, text)
	}
	// A log has no instant at which all of it is unused again.
	text = []byte(strings.Replace(string(text), "20/hour fixed-window", "20/day sliding-log", 1))
	if err := os.WriteFile(rules, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, rules
}

// within waits until the clients of both instances see the latest change, which was made
// at the first, and holds the times at which they put it into use by their own account to
// a bound: a second after it was answered where THROTTLE_SOAK=1 says that the machine has
// nothing else to do, else five. The clients may be late as the test is.
func within(t *testing.T, what string, both []*gatewayProcess, is func(g *gatewayProcess) bool) {
	t.Helper()
	began := time.Now()
	for _, g := range both {
		eventually(t, what, func() bool { return is(g) })
	}
	seen, most := time.Since(began), 5*time.Second
	if os.Getenv("THROTTLE_SOAK") == "1" {
		most = time.Second
	}
	serial, answered := both[0].latest()
	for i, g := range both {
		var since time.Time
		eventually(t, "it uses the rules with the change", func() (is bool) { since, is = g.since(serial); return is })
		late := since.Sub(answered)
		t.Logf("%s: instance %d used it %v after the answer; seen by both after %v", what, i, late.Round(time.Millisecond), seen.Round(time.Millisecond))
		if late > most {
			t.Errorf("%s: instance %d used it %v after the answer, want at most %v", what, i, late, most)
		}
	}
	if seen > time.Second && os.Getenv("THROTTLE_SOAK") == "1" {
		t.Errorf("%s after %v: that is more than a second", what, seen)
	}
}

// latest returns the serial number of the overlay, and when the latest write of this
// instance was answered.
func (g *gatewayProcess) latest() (serial int64, answered time.Time) {
	g.t.Helper()
	var o struct{ Overlay struct{ Serial int64 } }
	var e struct {
		Events []struct {
			At  time.Time
			As  string
			Err string
		}
	}
	for path, v := range map[string]any{"/api/v1/overlay": &o, "/api/v1/events": &e} {
		if err := json.Unmarshal([]byte(g.api("GET", path, "")), v); err != nil {
			g.t.Fatal(err)
		}
	}
	for _, one := range e.Events {
		if one.As != "" && one.Err == "" { // a write, that was done
			answered = one.At
		}
	}
	if o.Overlay.Serial == 0 || answered.IsZero() {
		g.t.Fatalf("there is no write: %+v, %+v", o, e)
	}
	return o.Overlay.Serial, answered
}

// since is when this instance put the rules with an overlay into use, if it did; they are
// named for it, unless nothing of it is left.
func (g *gatewayProcess) since(serial int64) (at time.Time, is bool) {
	g.t.Helper()
	var all struct {
		Versions []struct {
			Name  string
			Since time.Time
		}
	}
	if err := json.Unmarshal([]byte(g.api("GET", "/api/v1/versions", "")), &all); err != nil || len(all.Versions) == 0 {
		g.t.Fatal(err, all)
	}
	_, of, named := strings.Cut(all.Versions[0].Name, ".")
	return all.Versions[0].Since, !named || of == fmt.Sprint(serial)
}

// TestPageInBrowser uses the page of one of two instances by clicks, and again by
// the keyboard alone, and sees each change take effect on requests to both.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	browsertest.Find(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis := clitest.Vacant(t)
	defer startRedis(t, redis)()
	file, rules := pageFiles(t)
	to := upstream.Listener.Addr().String()
	both := []*gatewayProcess{startInstance(t, file, redis, to), startInstance(t, file, redis, to)}
	base := "http://" + both[0].admin
	b := browsertest.Open(t)
	signIn(b, base, exampleToken, "/")
	for i, keyboard := range []bool{false, true} {
		h := hand{browsertest.Hand{Browser: b, Keyboard: keyboard}}
		h.changes(both, base, fmt.Sprintf("acme-%d", i))
		h.brings(both, base, rules, i)
	}
	looks(b, base)
	b.Clean(base + "/")
	for _, g := range both {
		if err := g.end(); err != nil {
			t.Errorf("it ended by %v: %s", err, g.log)
		}
	}
}

// changes uses each change by hand for a client whose limit of 20 a day is used.
func (h hand) changes(both []*gatewayProcess, base, client string) {
	h.Helper()
	all := func(n int) func(*gatewayProcess) bool {
		return func(g *gatewayProcess) bool { return g.passes(1, client) == n }
	}
	both[0].passes(20, client)
	h.Do(chromedp.Navigate(base + "/"))
	h.Press("[data-part=kill] summary")
	h.fill("kill")
	within(h.T, "nothing is refused", both, all(1))
	h.fill("end-kill")
	within(h.T, "limits count", both, all(0))

	h.Press(`nav a[href="/who"]`)
	h.Write("main form:not([action^='/do']) input.mono", client)
	h.Press("main .panel form button")
	h.Await(`document.querySelector("[data-left]")?.textContent === "0 of 20"`)
	h.Write(`form[action="/do/raise"] [name=times]`, "3")
	h.fill("raise")
	within(h.T, "40 more pass", both, all(1))
	h.fill("forgive")
	h.fill("end-raise")
	within(h.T, "what was forgiven passes", both, all(1))
	h.fill("block")
	within(h.T, "a blocked client is refused", both, func(g *gatewayProcess) bool { return g.status(client) == 403 })
	h.Press(`nav a[href="/"]`)
	h.Press("[data-part=active] summary")
	h.fill("end-block")
	within(h.T, "the block has ended", both, func(g *gatewayProcess) bool { return g.status(client) != 403 })
	both[0].api("POST", "/api/v1/forgive", `{"rule": "per-client", "key": ["`+client+`"], "why": "test"}`)

	h.Press(`nav a[href="/try"]`)
	h.Write("[name=header]", "X-Client: "+client)
	h.Press("main form button")
	h.Await(`document.querySelector(".verdict.good")?.textContent.includes("Would pass")`)
	h.Await(`document.querySelectorAll(".tried li.ok").length === 2`)

	h.Press(`nav a[href="/whatif"]`)
	h.Write("[name=text]", `{"name": "per-client", "key": "header:X-Client", "limits": "5/hour fixed-window"}`)
	h.Press("main form[method=post] button")
	h.Await(`document.querySelector(".figure .bad") && document.querySelector(".figure .bad").textContent !== "0"`)
	h.Await(`document.querySelector(".split + .charts").querySelectorAll("path.refused").length === 2`)
}

// status is that of a request of a client.
func (g *gatewayProcess) status(client string) int {
	g.t.Helper()
	q, _ := http.NewRequest("GET", "http://"+g.web+"/", nil)
	q.Header.Set("X-Client", client)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		g.t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// brings rolls back a version that lets hardly anything pass.
func (h hand) brings(both []*gatewayProcess, base, path string, i int) {
	h.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	client := fmt.Sprintf("globex-%d", i)
	h.replace(path, fmt.Sprintf("version: bad-%d\nrules: {name: per-client, key: header:X-Client, limits: 1/hour}\n", i))
	within2 := func(what string, n int) {
		h.Helper()
		for _, g := range both {
			eventually(h.T, what, func() bool { return g.passes(1, client) == n })
		}
	}
	both[0].passes(2, client)
	within2("the bad version is in use", 0)
	h.Press(`nav a[href="/versions"]`)
	h.Await(fmt.Sprintf(`document.querySelector("[data-part=versions] tbody th").textContent.startsWith("bad-%d")`, i))
	h.Press("[data-part=versions] tr:nth-child(2) td:last-child summary")
	h.fill("rollback")
	within(h.T, "the version before is in use", both, func(g *gatewayProcess) bool { return g.passes(1, client) == 1 })
	h.replace(path, string(good))
	h.fill("end-rollback")
	h.Press(`nav a[href="/events"]`)
	h.Await(`document.querySelector(".events tbody").textContent.includes("end rollback")`)
}

func (h hand) replace(path, text string) {
	h.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		h.Fatal(err)
	}
}

// looks opens each view, narrow and wide, light and dark: nothing is wider than the
// screen, all is readable, and the chart moves.
func looks(b *browsertest.Browser, base string) {
	b.Helper()
	axe := b.Axe()
	for _, path := range []string{"/", "/rules", "/who?rule=per-client&key=acme-0", "/try", "/whatif", "/versions", "/events"} {
		for width, scheme := range map[int64]string{360: "light", 1400: "dark"} {
			b.Scheme(scheme)
			b.Do(chromedp.EmulateViewport(width, 800), chromedp.Navigate(base+path))
			b.Await(`document.documentElement.dataset.ready !== undefined`)
			if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
				b.Errorf("%s at %d is %d wide", path, width, got)
			}
			if axe != "" {
				b.Accessible(axe, fmt.Sprintf("%s, %s, %d wide", path, scheme, width))
			}
		}
	}
	b.Do(chromedp.Navigate(base + "/"))
	b.Await(`document.getElementById("live").textContent === "live"`)
	drawn := browsertest.Ask[string](b, `document.querySelector("path.passed").getAttribute("d")`)
	b.Await(`document.querySelector("path.passed").getAttribute("d") !== ` + browsertest.Quoted(drawn))
}
