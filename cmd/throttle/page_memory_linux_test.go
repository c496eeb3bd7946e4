package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
)

// aDay is a stream of ticks that goes faster than the seconds that it tells of, each
// with the most rules that a tick has; every minute of it something changes.
type aDay struct {
	ticks  int
	within time.Duration
	sent   atomic.Int64
}

// ServeHTTP sends all of it, and then keeps the stream open.
func (d *aDay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	to, from := http.NewResponseController(w), time.Now().Unix()+60
	began, p := time.Now(), 1e-3
	t := ticks.Tick{Seconds: 1, P50: &p, P99: &p, Rules: map[string]ticks.Count{}, State: ticks.State{Version: "v1", Store: "memory"}}
	for i := range d.ticks {
		n := int64(i)
		t.ID, t.At, t.Count, t.Stamp = from+n, time.Now(), ticks.Count{Passed: n, Refused: n % 977}, fmt.Sprint("s", n/60)
		t.Reasons = map[string]int64{"within": t.Passed, "over": t.Refused}
		for k := range 100 {
			t.Rules[fmt.Sprint("rule-", k)] = ticks.Count{Passed: n % (977 + int64(k)), Refused: n % 13}
		}
		text, _ := json.Marshal(t)
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", t.ID, text); err != nil {
			return
		}
		d.sent.Store(n + 1)
		if ahead := time.Duration(i)*d.within/time.Duration(d.ticks) - time.Since(began); ahead > 10*time.Millisecond {
			_ = to.Flush() // the next write says what is wrong
			time.Sleep(ahead)
		}
	}
	_ = to.Flush()
	<-r.Context().Done()
}

// behind serves the page of an instance with the ticks of d.
func (d *aDay) behind(t *testing.T, g *gatewayProcess) string {
	t.Helper()
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // the Host stays
		to := url.URL{Scheme: "http", Host: g.admin}
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
	}}
	mux := http.NewServeMux()
	mux.Handle("/", p)
	mux.Handle("/api/v1/stream", d)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s.URL
}

// TestPageMemory: twenty minutes of ticks, of which a tab keeps ten, leave less than 20 MB
// of JavaScript; and, where THROTTLE_SOAK=1, less than 50 MB in all.
func TestPageMemory(t *testing.T) {
	light(t, &aDay{ticks: 1200, within: 3 * time.Second}, 20)
}

// TestPageSoakDay: a day of ticks with 1,440 changes within ten minutes does, too.
func TestPageSoakDay(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") != "1" {
		t.Skip("SOAK NOT RUN: a day of events, ten minutes; make soak runs it")
	}
	light(t, &aDay{ticks: 86_400, within: 10 * time.Minute}, 1440)
}

// light opens three views of 100 rules, one of which reads the stream of d for the
// others, makes changes meanwhile, and holds what each tab then has to its bounds.
func light(t *testing.T, d *aDay, changes int) {
	t.Helper()
	var rules []string
	for i := range 100 {
		rules = append(rules, fmt.Sprintf(`{name: rule-%d, key: header:X-Client, limits: %d/hour}`, i, 100+i))
	}
	b := browsertest.Open(t)
	g := startWith(t, "version: v1\nrules: ["+strings.Join(rules, ", ")+"]\n")
	base := d.behind(t, g)
	signIn(b, base, exampleToken, "/")
	tabs := map[string]*browsertest.Browser{"/": b, "/rules": b.Tab(), "/events": b.Tab()}
	for path, one := range tabs {
		one.Unrecorded()
		one.Go(base + path)
	}
	for i := range changes {
		eventuallyIn(t, time.Minute, "the stream goes on", func() bool {
			return int(d.sent.Load()) >= d.ticks*i/changes || b.Ctx.Err() != nil
		})
		if err := b.Ctx.Err(); err != nil {
			t.Fatal("Chromium ended: ", err)
		}
		g.api("PUT", "/api/v1/block", fmt.Sprintf(`{"entry": "client=c%d", "for": "1h", "why": "a reason of the usual length, ticket 4711"}`, i%50))
	}
	tabs["/"].AwaitIn(2*time.Minute, `document.querySelector("[data-n=passed]").textContent === `+browsertest.Quoted(ticks.Rate(float64(d.ticks-1))))
	t.Logf("renderers before garbage is collected: %v bytes", b.Renderers())
	for path, one := range tabs {
		h := one.Collect()
		for tries := 0; tries < 20 && beyond(h); tries++ { // the last renderings may not be done
			time.Sleep(500 * time.Millisecond)
			h = one.Collect()
		}
		t.Logf("%s: %d nodes, %d listeners, %.1f MB of JavaScript", path, h.Nodes, h.Listeners, h.Script/(1<<20))
		if beyond(h) {
			t.Errorf("%s holds more than 20,000 nodes, 200 listeners or 20 MB of JavaScript", path)
		}
	}
	if os.Getenv("THROTTLE_SOAK") == "1" {
		resident(t, b, tabs)
	}
}

// beyond says whether a tab holds more than its views, which are one rendering each, and
// ten minutes of ticks need.
func beyond(h browsertest.Held) bool {
	return h.Nodes > 20_000 || h.Listeners > 200 || h.Script > 20<<20
}

// resident holds the private memory of each renderer process, all that a tab has for
// itself, with the engine, below 50 MB once its garbage is collected. How soon Chromium
// collects by itself, and gives memory back, depends on the machine.
func resident(t *testing.T, b *browsertest.Browser, tabs map[string]*browsertest.Browser) {
	t.Helper()
	const most = 50 << 20
	largest := 0
	for range 20 { // the processes give back what is free, in their time
		for _, one := range tabs {
			one.Collect()
		}
		if largest = slices.Max(slices.Collect(maps.Values(b.Renderers()))); largest < most {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Logf("renderers: %v bytes, the largest %.1f MB", b.Renderers(), float64(largest)/(1<<20))
	if largest >= most {
		t.Errorf("a tab holds %.1f MB, want less than 50", float64(largest)/(1<<20))
	}
}
