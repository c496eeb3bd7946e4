//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// lasts is how long the changes of TestPageChangesEnd last: each page must show them
// within it, for which a machine that has much else to do needs time.
func lasts() time.Duration {
	if os.Getenv("THROTTLE_SOAK") == "1" {
		return 5 * time.Second
	}
	return 12 * time.Second
}

// phase is a time in which an instance answered all requests of a client alike.
type phase struct {
	status   int
	from, to time.Time
}

// traffic are requests of a client to an instance, ten a second.
type traffic struct {
	client string
	ending chan struct{}
	once   sync.Once
	done   sync.WaitGroup

	mu     sync.Mutex
	phases []phase
}

// send starts the requests of a client whose limit is used.
func (g *gatewayProcess) send(client string) *traffic {
	f := &traffic{client: client, ending: make(chan struct{})}
	f.done.Go(func() {
		every := time.NewTicker(100 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-f.ending:
				return
			case <-every.C:
			}
			q, _ := http.NewRequest("GET", "http://"+g.web+"/", nil)
			q.Header.Set("X-Client", client)
			status := -1
			if a, err := http.DefaultClient.Do(q); err == nil {
				a.Body.Close()
				status = a.StatusCode
			}
			f.saw(status, time.Now())
		}
	})
	return f
}

func (f *traffic) saw(status int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.phases); n > 0 && f.phases[n-1].status == status {
		f.phases[n-1].to = now
		return
	}
	f.phases = append(f.phases, phase{status, now, now})
}

// statuses are those of the phases so far.
func (f *traffic) statuses() (all []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.phases {
		all = append(all, p.status)
	}
	return all
}

// byHand is a change of the page, and what it does to the requests of a client.
type byHand struct {
	action string
	status int // while it holds; 429 before and after
	shown  string
	sent   time.Time
	to     []*traffic
}

// TestPageChangesEnd makes each change of the page by clicks, and sees in the requests
// to both of two instances that it takes effect and ends by itself; pages that are open
// on both instances show it and its end without being loaded again.
func TestPageChangesEnd(t *testing.T) {
	t.Parallel()
	browsertest.Find(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	redis := clitest.Vacant(t)
	defer startRedis(t, redis)()
	file := patientExample(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "rules.yaml"), []byte("rules: {name: per-client, key: header:X-Client, limits: 20/day sliding-log}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := upstream.Listener.Addr().String()
	both := []*gatewayProcess{startInstance(t, file, redis, to), startInstance(t, file, redis, to)}
	h := hand{browsertest.Hand{Browser: browsertest.Open(t)}}
	var open []*browsertest.Browser
	for _, g := range both {
		one := h.Tab()
		signIn(one, "http://"+g.admin, exampleToken, "/")
		who := h.Tab()
		who.Go("http://" + g.admin + "/who?rule=per-client&key=acme-raise")
		for _, one := range []*browsertest.Browser{one, who} {
			one.Await(isLive)
			browsertest.Ask[any](one, remembers)
			open = append(open, one)
		}
	}
	h.Go("http://" + both[0].admin + "/")
	h.Await(isLive)

	all := []*byHand{
		{action: "raise", status: 200, shown: "per-client · acme-raise"},
		{action: "block", status: 403, shown: "header:X-Client=acme-block"},
		{action: "exempt", status: 200, shown: "header:X-Client=acme-exempt"},
		{action: "forgive", status: 200},
		{action: "kill", status: 200, shown: "The kill switch is on"},
	}
	for _, c := range all[:4] {
		h.holds(c, both)
	}
	haveEnded(t, all[:4], open)
	h.holds(all[4], both) // it is of all clients
	haveEnded(t, all[4:], open)
	for _, one := range open {
		one.Clean("http://"+both[0].admin+"/", "http://"+both[1].admin+"/")
	}
}

// haveEnded waits until changes have ended in the traffic, and then on pages: those of even
// numbers are overviews, the others show the key that was raised.
func haveEnded(t *testing.T, changes []*byHand, open []*browsertest.Browser) {
	t.Helper()
	for _, c := range changes {
		c.over(t)
		c.check(t)
		for i, one := range open {
			switch shown := browsertest.Quoted(c.shown); {
			case i%2 == 0 && c.shown != "":
				one.Await(`seen.some(text => text.includes(` + shown + `)) && !now().includes(` + shown + `)`)
			case i%2 == 1 && c.action == "raise":
				one.Await(`seen.some(text => text.includes("Raised to 1000/day") && text.includes("End raise")) && !/Raised|End raise/.test(now())`)
			}
		}
	}
}

// remembers makes a page keep what it showed; one that is loaded again forgets it.
const remembers = `
	var now = () => [...document.querySelectorAll("[data-part]")].map(e => e.innerText.replace(/\s+/g, " ")).join("\n");
	var seen = [now()];
	new MutationObserver(() => { if (seen.at(-1) !== now()) seen.push(now()); }).observe(document.body, {childList: true, subtree: true, characterData: true}); 0`

// holds makes a change for a client of its own, whose limit is used.
func (h hand) holds(c *byHand, both []*gatewayProcess) {
	h.Helper()
	client := "acme-" + c.action
	both[0].passes(20, client)
	for _, g := range both {
		f := g.send(client)
		h.Cleanup(f.end)
		c.to = append(c.to, f)
	}
	if c.action == "kill" {
		h.Press(`nav a[href="/"]`)
		h.Press("[data-part=kill] summary")
	} else {
		h.Press(`nav a[href="/who"]`)
		h.Write("main form:not([action^='/do']) input.mono", client)
		h.Press("main .panel form button")
		h.Await(`document.querySelector("[data-left]")?.textContent === "0 of 20"`)
	}
	if c.action == "raise" {
		h.Write(form("raise")+"[name=times]", "50")
		h.mistakes()
	}
	if c.action != "forgive" { // which uses nothing for a time
		h.Write(form(c.action)+"[name=other]", fmt.Sprint(lasts().Seconds(), " s"))
	}
	h.why(c.action)
	c.sent = time.Now()
	h.send(c.action)
}

// over waits until a change has ended in both instances, and ends their traffic.
func (c *byHand) over(t *testing.T) {
	t.Helper()
	eventuallyIn(t, lasts()+20*time.Second, c.action+" ends by itself", func() bool {
		ended, used := 0, 0
		for _, f := range c.to {
			switch all := f.statuses(); {
			case len(all) >= 3:
				ended++
			case c.action == "forgive" && slices.Equal(all, []int{429}):
				used++ // what was forgiven, by the others
			}
		}
		return ended > 0 && ended+used == len(c.to)
	})
	for _, f := range c.to {
		f.end()
	}
}

// end ends the traffic; it may be called again.
func (f *traffic) end() {
	f.once.Do(func() { close(f.ending) })
	f.done.Wait()
}

// mistakes types times for which a raise cannot last. What is wrong is said before it
// is sent, or beside the form with what was typed.
func (h hand) mistakes() {
	h.Helper()
	field := form("raise") + "[name=other]"
	h.Write(field, "soon")
	h.Await(`document.querySelector(` + browsertest.Quoted(field) + `).validity.patternMismatch`)
	h.Write(field, "400d")
	h.Write(form("raise")+"[name=why]", "a mistake")
	h.Press(form("raise") + "button")
	h.Await(`document.getElementById("alert")?.textContent === 'for: "400d" must be at most 366d; write lasting changes into the rules'`)
	h.Await(`document.querySelector(` + browsertest.Quoted(field) + `).value === "400d" && document.querySelector(` + browsertest.Quoted(field) + `).ariaInvalid === "true"`)
	h.Await(`document.querySelector(` + browsertest.Quoted(form("raise")+"[name=why]") + `).value === "a mistake" && document.querySelector(` + browsertest.Quoted(form("raise")+"[name=times]") + `).value === "50"`)
}

// check holds both instances to what the change says; in time, where THROTTLE_SOAK=1
// says that the machine has nothing else to do.
func (c *byHand) check(t *testing.T) {
	t.Helper()
	for i, f := range c.to {
		got, want := f.statuses(), []int{429, c.status, 429}
		if c.action == "forgive" && slices.Equal(got, want[:1]) { // over has seen another that passed
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: instance %d answers %v, want %v", c.action, i, got, want)
			continue
		}
		began, ended := f.phases[1].from, f.phases[2].from
		late, held := began.Sub(c.sent), ended.Sub(began)
		said := strings.TrimSpace(fmt.Sprintf("%s: instance %d: in effect after %v, for %v", c.action, i, late.Round(time.Millisecond), held.Round(time.Millisecond)))
		t.Log(said)
		if os.Getenv("THROTTLE_SOAK") == "1" && (late > time.Second || c.action != "forgive" && (held < lasts()-time.Second || held > lasts()+2*time.Second)) {
			t.Errorf("%s; it must be within a second, and end within one", said)
		}
	}
}
