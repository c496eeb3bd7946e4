package throttlepage

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// get asks a handler for a path.
func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// state is /state.json, read.
func state(t *testing.T, h http.Handler) (l look) {
	t.Helper()
	w := get(h, "GET", "/state.json")
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return l
}

// refuses makes a call that is refused at once, and waits.
func refuses(ctx context.Context, th *throttle.Throttle, o throttle.CallOptions, r pace.Report) {
	r.Verdict = pace.Throttled
	go func() {
		_ = th.DoResult(throttle.WithOptions(ctx, o), func(context.Context) throttle.Result { return throttle.Result{Report: r} })
	}()
}

// The page shows, in numbers and in words, what waits and why, and what the server
// said.
func TestPage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var counter throttle.Counter
		api := &throttle.Throttle{OnEvent: counter.OnEvent, MaxInFlight: 7}
		var group throttle.Group
		p := &Page{
			Throttles: map[string]*throttle.Throttle{"api": api, "none": nil},
			Groups:    map[string]*throttle.Group{"web": &group, "none": nil},
			Counters:  map[string]*throttle.Counter{"api": &counter, "other": new(throttle.Counter)},
		}
		group.Enter("example.com").Leave()
		refuses(ctx, api, throttle.CallOptions{}, pace.Report{
			After: time.Minute, Hints: pace.Hints{Limit: pace.Some(int64(5000)), Window: pace.Some(time.Hour), Remaining: pace.Some(int64(0))},
		})
		time.Sleep(time.Second)
		for range 2 {
			refuses(ctx, api, throttle.CallOptions{Key: "tenant", Needs: []throttle.Need{{Scope: "search"}}}, pace.Report{})
		}
		time.Sleep(9 * time.Second)

		l := state(t, p)
		if len(l.Parts) != 2 || len(l.Parts[0].Limits) != 2 || len(l.Parts[1].Limits) != 1 {
			t.Fatalf("%+v", l)
		}
		own, scope := l.Parts[0].Limits[0], l.Parts[0].Limits[1]
		if own.Waiting != 3 || own.Own.Resting != 1 || *own.Own.NextRetry != 50 || *own.Own.Oldest != 9 || own.MaxInFlight != 7 || own.Source != "stated" || own.Until == nil || !(*own.Own.Next > 50) {
			t.Errorf("own limit %+v, %+v", own, own.Own)
		}
		if want := []queue{{"normal", "e9da86d3", false, 2, 9}}; len(own.Own.Queues) != 1 || own.Own.Queues[0] != want[0] {
			t.Errorf("queues %v, want %v", own.Own.Queues, want)
		}
		if s := own.Own.Said; s == nil || s.Verdict != "throttled" || *s.After != 60 || *s.Limit != 5000 || *s.Window != 3600 || *s.Remaining != 0 {
			t.Errorf("said %+v", s)
		}
		if scope.Scope != "search" || scope.Waiting != 2 || scope.Own != nil || scope.Source != "none" {
			t.Errorf("scope %+v", scope)
		}
		if c := l.Parts[0].Calls; c == nil || c.Tries != 1 || c.Throttled != 1 {
			t.Errorf("calls %+v", c)
		}

		html := get(p, "GET", "/").Body.String()
		for _, want := range []string{
			"1 try: 0 served, 1 refused, 0 failed, 0 ignored. 0 calls given up.",
			"stopped", "as the server asked", "From what the server states of its limit.",
			"0 of 7", "More may start.", "The oldest in line for 9.0 s. 1 rests before a retry, the first for 50 s more.",
			"10 s ago: come back after 60 s, 5,000 allowed in 60 min, 0 of 5,000 remain.",
			"normal, key <bdi>e9da86d3</bdi>: 2, the oldest for 9.0 s", "search</bdi>", "group of 1", "example.com", "not paced",
		} {
			if !strings.Contains(html, want) {
				t.Errorf("no %q in\n%s", want, html)
			}
		}
		time.Sleep(fresh) // until then it shows what it has seen
		p.ShowKeys = true
		if html := get(p, "GET", "/").Body.String(); !strings.Contains(html, "key <bdi>tenant</bdi>: 2") { // a key in Hebrew, too, leaves what follows in its place
			t.Error("keys are not shown, or not apart from the text around them:\n" + html)
		}
	})
}

// The zero Page is ready, and tells what it lacks.
func TestPageZero(t *testing.T) {
	p := new(Page)
	if w := get(p, "GET", "/"); w.Code != 200 || !strings.Contains(w.Body.String(), "set Throttles or Groups") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if l := state(t, p); l.Parts == nil || len(l.Parts) != 0 {
		t.Errorf("%+v", l)
	}
	p = &Page{Groups: map[string]*throttle.Group{"": {}}}
	if w := get(p, "GET", "/"); !strings.Contains(w.Body.String(), "No member yet") || !strings.Contains(w.Body.String(), "(no name)") {
		t.Error(w.Body)
	}
}

// What is asked for below any prefix is found by relative URLs, and nothing else
// is; only reading is allowed.
func TestPagePaths(t *testing.T) {
	page := new(Page)
	mux := http.NewServeMux()
	mux.Handle("/a/", http.StripPrefix("/a", page))
	mux.Handle("/b/", http.StripPrefix("/b/", page))
	mux.Handle("/c/d", http.StripPrefix("/c/d", page))
	mux.Handle("/e/", page)
	for _, c := range []struct {
		method, path string
		code         int
		text         string // of the body, or the Location
	}{
		{"GET", "/a/", 200, "<!doctype html>"},
		{"GET", "/a/?x=1", 200, "<!doctype html>"},
		{"GET", "/a/state.json", 200, `"parts"`},
		{"GET", "/b/", 200, "<!doctype html>"},
		{"GET", "/b/state.json", 200, `"parts"`},
		{"GET", "/c/d", 307, "./d/"},
		{"HEAD", "/a/events", 200, ""},
		{"GET", "/a/other", 404, "not found: the page has /, /state.json and /events"},
		{"GET", "/e/", 404, "mount it with http.StripPrefix"},
		{"POST", "/a/", 405, "this page only reads: send GET or HEAD\n"},
		{"DELETE", "/a/state.json", 405, "this page only reads: send GET or HEAD\n"},
		{"OPTIONS", "/a/events", 405, "this page only reads: send GET or HEAD\n"},
	} {
		w := get(mux, c.method, c.path)
		text := w.Body.String() + w.Header().Get("Location")
		if w.Code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: %d %.80q, want %d %q", c.method, c.path, w.Code, text, c.code, c.text)
		}
		if c.code == 405 && (w.Header().Get("Allow") != "GET, HEAD" || text != c.text) {
			t.Errorf("%s %s: Allow %q and %q", c.method, c.path, w.Header().Get("Allow"), text)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: header %v", c.method, c.path, w.Header())
		}
	}
	for uri, want := range map[string]string{"/x/javascript:alert(1)": "./javascript:alert(1)/", "//evil.example": "./evil.example/", "/p%2Fq": "./p%2Fq/", "/": "", "": ""} {
		if got := folder(&http.Request{RequestURI: uri}); got != want {
			t.Errorf("of %q leads to %q, want %q", uri, got, want)
		}
	}
}

// The policy allows the style and the script of the page, by their hashes, and no
// other; all URLs in it are relative.
func TestPagePolicy(t *testing.T) {
	w := get(new(Page), "GET", "/")
	for _, tag := range []string{"style", "script"} {
		_, rest, _ := strings.Cut(w.Body.String(), "<"+tag+">")
		text, _, ok := strings.Cut(rest, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if csp := w.Header().Get("Content-Security-Policy"); !ok || len(text) < 500 || !strings.Contains(csp, want) {
			t.Errorf("no %s in %s", want, csp)
		}
	}
	for _, bad := range []string{`"http`, `"/`, `'/`, "//", `url(`, " style=", " onclick"} {
		if text := strings.ReplaceAll(w.Body.String(), "// ", ""); strings.Contains(text, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
}

// Names are text, whatever is in them, and no longer than fits.
func TestPageHostileNames(t *testing.T) {
	evil := "<script>alert(1)</script>\"'&\n\r\x00\u202e\xff" + strings.Repeat("x", 1e6)
	var group throttle.Group
	group.Enter(evil).Leave()
	group.Enter("").Leave()
	th := new(throttle.Throttle)
	_ = th.DoResult(throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: evil}, {Scope: ""}}}),
		func(context.Context) throttle.Result {
			return throttle.Result{Report: pace.Report{Verdict: pace.Served}}
		})
	p := &Page{
		Throttles: map[string]*throttle.Throttle{evil: th}, Groups: map[string]*throttle.Group{evil: &group},
		Counters: map[string]*throttle.Counter{evil: {}},
	}
	html := get(p, "GET", "/").Body.String()
	if len(html) > 30_000 || strings.Contains(html, "<script>alert") || strings.ContainsAny(html, "\r\x00\u202e") || !utf8.ValidString(html) {
		t.Errorf("%d bytes of\n%.9000s", len(html), html)
	}
	if want := "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;\ufffd\ufffd"; strings.Count(html, want) != 4 {
		t.Errorf("%d times %s", strings.Count(html, want), want)
	}
	l := state(t, p)
	if name := l.Parts[0].Limits[2].Scope; !strings.HasSuffix(name, "xxx…") || len([]rune(name)) != longestName+1 {
		t.Errorf("scope %q", name)
	}
	if got := []string{l.Parts[0].Limits[1].Scope, l.Parts[1].Limits[0].Name}; got[0] != "(no name)" || got[1] != "(no name)" {
		t.Errorf("without a name: %q", got)
	}
}

// Of many hosts and scopes those are shown that calls wait for; the others are
// counted.
func TestPageMany(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		group := throttle.Group{MaxMembers: 10_000}
		for i := range 10_000 {
			group.Enter(fmt.Sprintf("host-%05d", i)).Leave()
		}
		busy := group.Enter("host-07777").Throttle()
		for i := range 240 {
			th := busy
			if i%2 == 0 {
				th = group.Enter("host-08888").Throttle()
			}
			refuses(ctx, th, throttle.CallOptions{Key: fmt.Sprint(i), Needs: []throttle.Need{{Scope: fmt.Sprintf("route-%03d", i)}}}, pace.Report{After: 10 * time.Minute})
		}
		time.Sleep(time.Minute)
		p := &Page{Groups: map[string]*throttle.Group{"web": &group}, Throttles: map[string]*throttle.Throttle{"busy": busy}}
		l := state(t, p)
		one, web := l.Parts[0], l.Parts[1]
		if web.Members != 10_000 || len(web.Limits) != 100 || one.Members != 1 || len(one.Limits) != 100 {
			t.Fatalf("%d rows of %d members, and %d rows of one", len(web.Limits), web.Members, len(one.Limits))
		}
		hosts := map[string]int{}
		for _, r := range web.Limits {
			hosts[r.Name]++
		}
		if hosts["host-07777"] != 10 || hosts["host-08888"] != 10 || len(hosts) != 82 || web.More != 10_000-82+2*(120-9) {
			t.Errorf("%d hosts, %d more, %v", len(hosts), web.More, hosts)
		}
		if one.More != 120+1-100 {
			t.Errorf("%d more limits of one", one.More)
		}
		if own := one.Limits[0].Own; len(own.Queues) != mostQueues || own.MoreQueues != one.Limits[0].Waiting-one.Limits[0].Own.Resting-mostQueues {
			t.Errorf("%d queues, %d more, of %d waiting", len(own.Queues), own.MoreQueues, one.Limits[0].Waiting)
		}
		html := get(p, "GET", "/").Body.String()
		if len(html) > 300_000 || !strings.Contains(html, "as fewer calls wait for them: 21.") {
			t.Errorf("%d bytes", len(html))
		}
		if few := (&Page{Groups: p.Groups, MaxRows: 1}); len(state(t, few).Parts[0].Limits) != 1 {
			t.Errorf("%+v, want one row", state(t, few))
		}
	})
}

// TestPageBack: the page links to where it is told to, and else to nothing.
func TestPageBack(t *testing.T) {
	if got := get(&Page{Back: "../"}, "GET", "/").Body.String(); !strings.Contains(got, `<a href="../">Back</a>`) {
		t.Errorf("no link back:\n%s", got)
	}
	if got := get(new(Page), "GET", "/").Body.String(); strings.Contains(got, "Back") {
		t.Errorf("a link to nowhere:\n%s", got)
	}
}
