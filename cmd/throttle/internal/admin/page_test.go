package admin

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// visitor is a browser without scripts: it keeps a cookie and follows nothing.
type visitor struct {
	*running
	cookie string
}

// visit signs in with a token; "" stays outside.
func (r *running) visit(secret string) *visitor {
	r.t.Helper()
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v := &visitor{running: r}
	if secret == "" {
		return v
	}
	a := v.submit("/signin", "token", secret, "to", "/rules")
	if a.status != 303 || a.header.Get("Location") != "/rules" {
		r.t.Fatalf("signing in: %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	v.cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return v
}

// open asks for a page, with more fields of the header.
func (v *visitor) open(path string, fields ...string) answer {
	v.t.Helper()
	return v.send("GET", path, "", append(fields, "Cookie", v.cookie)...)
}

// submit sends a form as a page of the listener does.
func (v *visitor) submit(path string, pairs ...string) answer {
	v.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return v.send("POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Cookie", v.cookie, "Sec-Fetch-Site", "same-origin")
}

var pages = []string{"/", "/rules", "/who", "/try", "/whatif", "/versions", "/events"}

// TestSignIn: a page needs a session, which a token begins and which ends.
func TestSignIn(t *testing.T) {
	r := instances(t, 1)[0].running
	outside := r.visit("")
	for _, path := range pages {
		a := outside.open(path)
		if want := "/signin?" + (url.Values{"to": {path}}).Encode(); a.status != 303 || a.header.Get("Location") != want {
			t.Errorf("GET %s: %d to %q, want %q", path, a.status, a.header.Get("Location"), want)
		}
	}
	if a := outside.submit("/signin", "token", "not-a-token-0123456789", "to", "/"); a.status != 200 || !strings.Contains(a.body, "No token has this secret") || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %q", a.status, a.header.Get("Set-Cookie"))
	}
	for _, to := range []string{"//evil.example/", `/\evil.example`, "https://evil.example/", ""} {
		if a := outside.submit("/signin", "token", readSecret, "to", to); a.header.Get("Location") != "/" {
			t.Errorf("signing in leads from %q to %q", to, a.header.Get("Location"))
		}
	}
	v := r.visit(writeSecret)
	for _, path := range pages {
		a := v.open(path)
		if csp := a.header.Get("Content-Security-Policy"); a.status != 200 || !strings.HasPrefix(csp, "default-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("GET %s: %d, policy %q", path, a.status, csp)
		}
		if strings.Contains(a.body, " style=") || strings.Contains(a.body, "<style") || strings.Contains(a.body, "onclick") || strings.Contains(a.body, writeSecret) {
			t.Errorf("GET %s has inline code or the secret", path)
		}
	}
	if a := v.open("/api/v1/status"); a.status != 200 {
		t.Errorf("the API with a session: %d", a.status)
	}
	if a := v.submit("/signout"); a.status != 303 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out: %d %q", a.status, a.header.Get("Set-Cookie"))
	}
	if a := v.open("/"); a.status != 303 {
		t.Errorf("after signing out: %d", a.status)
	}
}

// TestPageParts: the script asks for a view without its frame, charts and rates, with the
// same parts.
func TestPageParts(t *testing.T) {
	v := instances(t, 1)[0].visit(writeSecret)
	parts := regexp.MustCompile(`data-part="[a-z-]+"`)
	for _, path := range pages {
		whole, few := v.open(path).body, v.open(path, "Throttle-Page", "parts").body
		if strings.Contains(few, "<html") || strings.Contains(few, ` d="M`) || !strings.Contains(few, `<main id="main" tabindex="-1" data-of="`) {
			t.Errorf("GET %s: the parts are %.200s", path, few)
		}
		if want, got := parts.FindAllString(whole, -1), parts.FindAllString(few, -1); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("GET %s has the parts %q, want %q", path, got, want)
		}
	}
	if !strings.Contains(v.open("/rules").body, `<svg data-chart="spark"`) {
		t.Error("the rules have no charts")
	}
}

// TestCookie: scripts cannot read it, other sites cannot send it, under TLS it
// never travels in the clear, and each listener of a host has its own.
func TestCookie(t *testing.T) {
	for _, secure := range []bool{false, true} {
		a := &access{secure: secure}
		for _, port := range []string{"1", "2"} {
			a.cookie = cookieName(address("127.0.0.1:"+port), secure)
			c := a.cookieOf("x", 1)
			text := c.String()
			name := "throttle-" + port
			if secure {
				name = "__Host-" + name
			}
			if c.Name != name || !strings.Contains(text, "HttpOnly") || !strings.Contains(text, "SameSite=Strict") || strings.Contains(text, "Secure") != secure || !strings.Contains(text, "Path=/;") {
				t.Errorf("secure %t: %s", secure, text)
			}
		}
	}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// TestSessionsEnd: they are bounded in number and in time.
func TestSessionsEnd(t *testing.T) {
	var s sessions
	now, who := time.Unix(1e9, 0), caller{"jane", writer}
	secret := s.begin(who, now)
	for _, c := range []struct {
		later time.Duration
		want  role
	}{{0, writer}, {sessionLife - 1, writer}, {sessionLife, anyone}} {
		if got := s.of(secret, now.Add(c.later)).role; got != c.want {
			t.Errorf("after %v the role is %d, want %d", c.later, got, c.want)
		}
	}
	for range maxSessions - 1 {
		s.begin(who, now)
	}
	if s.of(secret, now).role != writer || len(s.all) != maxSessions {
		t.Errorf("of %d sessions the first has role %d", len(s.all), s.of(secret, now).role)
	}
	last := s.begin(who, now)
	if s.of(secret, now).role != anyone || s.of(last, now).role != writer || len(s.all) != maxSessions {
		t.Errorf("beyond the bound: %d sessions", len(s.all))
	}
	s.end(last)
	if s.of(last, now).role != anyone || s.of("", now).role != anyone {
		t.Error("a session that ended goes on")
	}
}

// TestSessionsOfOthers: one token signs out nobody of another, and signing in again
// takes the place of the session before.
func TestSessionsOfOthers(t *testing.T) {
	r := instances(t, 1)[0].running
	jane := r.visit(writeSecret)
	for range 300 {
		r.submitSignIn(readSecret, "")
	}
	if a := jane.open("/"); a.status != 200 {
		t.Errorf("after 300 others signed in with another token: %d", a.status)
	}
	cookie := r.submitSignIn(readSecret, jane.cookie)
	if a := jane.open("/"); a.status != 303 {
		t.Errorf("a session whose browser signed in again: %d", a.status)
	}
	if jane.cookie = cookie; jane.open("/").status != 200 {
		t.Error("the new session is none")
	}
}

// submitSignIn signs in from a browser with a cookie, and returns the new one.
func (r *running) submitSignIn(secret, cookie string) string {
	r.t.Helper()
	a := (&visitor{r, cookie}).submit("/signin", "token", secret, "to", "/")
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie
}

// TestPageWrites: each form does what it says, without scripts, and leads back; what
// is wrong is said where the form stood.
func TestPageWrites(t *testing.T) {
	all := instances(t, 2)
	a, b := all[0], all[1]
	v := a.visit(writeSecret)
	do := func(name string, pairs ...string) {
		t.Helper()
		got := v.submit("/do/"+name, append(pairs, "why", "ticket 4711")...)
		if to := got.header.Get("Location"); got.status != 303 || !strings.Contains(to, "done="+name) {
			t.Fatalf("%s: %d to %q: %s", name, got.status, to, got.body)
		} else if page := v.open(to); page.status != 200 || !strings.Contains(page.body, `class="banner good"`) {
			t.Errorf("%s leads to %s: %d, which does not say that it is done", name, to, page.status)
		}
		b.look()
	}
	passes := func(want int, when string) {
		t.Helper()
		if n := b.passes(99, "acme", 0); n != want {
			t.Errorf("%s %d passed in the other instance, want %d", when, n, want)
		}
	}
	passes(2, "before")
	do("raise", "rule", "per-client", "key", "acme", "times", "3", "for", "1h")
	passes(4, "after a raise")
	do("end-raise", "rule", "per-client", "key", "acme")
	do("forgive", "rule", "per-client", "key", "acme")
	passes(2, "after it was forgiven")
	do("raise", "rule", "per-client", "key", "acme", "limits", "5/h, 9/day", "for", "1h")
	passes(3, "after a raise to limits")
	do("kill", "for", "10m", "sure", "on")
	passes(99, "with the kill switch")
	do("end-kill")
	do("block", "entry", "client=globex", "for", "1h")
	if n := b.passes(1, "globex", 0); n != 0 {
		t.Error("a blocked client passes")
	}
	do("end-block", "entry", "client=globex")
	do("exempt", "entry", "client=acme", "for", "1h")
	passes(99, "exempt")
	do("end-exempt", "entry", "client=acme")
	a.text = strings.Replace(threeRules, `"version": "v1"`, `"version": "v2"`, 1)
	do("reload")
	before := a.stack.Versions()[0].Name
	do("rollback", "version", before)
	do("end-rollback")

	wrong := v.submit("/do/raise", "rule", "per-client", "key", "acme", "times", "7777", "for", "1h", "why", "a launch")
	for _, want := range []string{`role="alert"`, "at most 1000", `value="7777"`, `value="a launch"`} {
		if wrong.status != 400 || !strings.Contains(wrong.body, want) {
			t.Errorf("a raise that cannot be: %d, the page has no %s", wrong.status, want)
		}
	}
	if want := `data-path="/who?key=acme&amp;rule=per-client"`; !strings.Contains(wrong.body, want) {
		t.Errorf("after a raise that cannot be, the page has no %s to ask for again", want)
	}
	if got := v.submit("/do/nothing"); got.status != 404 || !strings.Contains(got.body, "<h1>") {
		t.Errorf("a form that is not there: %d", got.status)
	}
}

// TestPageRefuses: who may not write changes nothing: a token that may only read,
// a page of another origin, a Host that was bound to the address.
func TestPageRefuses(t *testing.T) {
	one := instances(t, 1)[0]
	reads, writes := one.visit(readSecret), one.visit(writeSecret)
	form := url.Values{"for": {"10m"}, "why": {"x"}, "sure": {"on"}}.Encode()
	kind := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for name, c := range map[string]struct {
		v      *visitor
		fields []string
		status int
	}{
		"read only":      {reads, []string{"Sec-Fetch-Site", "same-origin"}, 403},
		"no session":     {one.visit(""), []string{"Sec-Fetch-Site", "same-origin"}, 303},
		"another origin": {writes, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"another port":   {writes, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, 403},
		"an old browser": {writes, []string{"Origin", "https://evil.example"}, 403},
		"rebound":        {writes, []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, 421},
	} {
		a := c.v.send("POST", "/do/kill", form, append(append(kind, "Cookie", c.v.cookie), c.fields...)...)
		if o, _ := one.stack.Overlay(); a.status != c.status || o.Kill.On {
			t.Errorf("%s: %d, want %d; the kill switch is on: %t", name, a.status, c.status, o.Kill.On)
		}
	}
	for _, path := range append(pages, "/who?rule=per-client&key=acme") {
		if a := reads.open(path); a.status != 200 || strings.Contains(a.body, `action="/do/`) {
			t.Errorf("GET %s with a token that may read: %d, or it has a form that writes", path, a.status)
		}
	}
	if a := writes.open("/who?rule=per-client&key=acme"); !strings.Contains(a.body, `action="/do/raise"`) {
		t.Error("with a token that may write there is no form")
	}
	if a := reads.submit("/try", "method", "GET", "path", "/login", "header", "X-Tenant: a", "address", "192.0.2.1"); a.status != 200 || !strings.Contains(a.body, "Would pass") {
		t.Errorf("trying with a token that may read: %d", a.status)
	}
	if a := reads.submit("/try", "method", "GET", "domain", "edge", "descriptor", "user=jane"); a.status != 200 || !strings.Contains(a.body, "it is for requests, not for descriptors") || !strings.Contains(a.body, `value="user=jane"`) {
		t.Errorf("trying a descriptor: %d", a.status)
	}
}

// TestStream: the stream resumes after an ID without a gap, is bounded, and ends
// with the listener.
func TestStream(t *testing.T) {
	one := instances(t, 1)[0]
	events := func(fields ...string) *bufio.Scanner {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		q, _ := http.NewRequestWithContext(ctx, "GET", one.base+"/api/v1/stream", nil)
		for i := 0; i < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		a, err := (&http.Client{}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Body.Close() })
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("X-Accel-Buffering") != "no" {
			t.Fatalf("%d %v", a.StatusCode, a.Header)
		}
		return bufio.NewScanner(a.Body)
	}
	id := func(s *bufio.Scanner) (n int64) {
		t.Helper()
		for s.Scan() {
			if _, err := fmt.Sscanf(s.Text(), "id: %d", &n); err == nil {
				return n
			}
		}
		t.Fatalf("the stream ended: %v", s.Err())
		return 0
	}
	s := events("Authorization", "Bearer "+readSecret)
	from := id(s)
	next := id(s)
	if next <= from {
		t.Errorf("after %d comes %d", from, next)
	}
	again := events("Authorization", "Bearer "+readSecret, "Last-Event-ID", fmt.Sprint(from))
	if got := id(again); got != next {
		t.Errorf("resumed after %d it goes on with %d, want %d", from, got, next)
	}
	v := one.visit(readSecret)
	signed := events("Cookie", v.cookie)
	id(signed)
	v.submit("/signout")
	for began := time.Now(); signed.Scan(); { // at most what was sent before
		if time.Since(began) > heartbeat {
			t.Fatal("the stream goes on after signing out")
		}
	}
	for range maxWatchers - 2 {
		events("Authorization", "Bearer "+readSecret)
	}
	if a := one.send("GET", "/api/v1/stream", "", "Authorization", "Bearer "+readSecret); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("beyond the bound: %d", a.status)
	}
	if a := one.send("GET", "/api/v1/stream?after=x", "", "Authorization", "Bearer "+readSecret); a.status != 400 {
		t.Errorf("after=x: %d", a.status)
	}
	began := time.Now()
	if err := one.stop(); err != nil {
		t.Error(err)
	}
	for again.Scan() {
		continue
	}
	if took := time.Since(began); took >= endWithin {
		t.Errorf("with streams open it took %v to end", took)
	}
}

// TestStreamSoakLasts: no timeout of the listener for requests ends a stream.
func TestStreamSoakLasts(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") != "1" {
		t.Skip("SOAK NOT RUN: 20 seconds of a stream; make soak runs it")
	}
	one := instances(t, 1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, _ := http.NewRequestWithContext(ctx, "GET", one.base+"/api/v1/stream", nil)
	q.Header.Set("Authorization", "Bearer "+readSecret)
	a, err := (&http.Client{}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	n := 0
	for s := bufio.NewScanner(a.Body); s.Scan(); {
		if strings.HasPrefix(s.Text(), "id:") {
			n++
		}
	}
	if ctx.Err() == nil || n < 17 {
		t.Errorf("the stream ended after %d ticks: %v", n, ctx.Err())
	}
}
