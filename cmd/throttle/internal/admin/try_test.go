package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/dryrun"
	"github.com/throttle-go/throttle/rules"
)

// TestTry: a request that was not sent is explained, by a token that reads, and
// charges nothing.
func TestTry(t *testing.T) {
	x := instances(t, 1)[0]
	x.passes(2, "acme", 0)
	try := func(body string) dryrun.Report {
		t.Helper()
		var got dryrun.Report
		a := x.send("POST", "/api/v1/try", body, "Authorization", "Bearer "+readSecret)
		if a.status != 200 {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
		decode(t, a.body, &got)
		return got
	}
	for range 2 {
		got := try(`{"path": "/x", "client": "acme"}`)
		if got.OK || got.Reason != "over" || got.Rule != "per-client" || got.Way == "" || len(got.Rules) != 2 || got.Rules[0].Limits[0].OK {
			t.Errorf("a key that has used its limit: %+v", got)
		}
		if login := got.Rules[1]; login.Applies || !strings.Contains(login.Why, "path /x is not /login") {
			t.Errorf("the other rule: %+v", login)
		}
	}
	if got := try(`{"method": "POST", "path": "/login", "address": "192.0.2.7", "header": {"x-tenant": "t"}}`); !got.OK || !got.Rules[1].Applies || got.Rules[1].Limits[0].Left != 2 {
		t.Errorf("a login: %+v", got)
	}
	x.must("PUT", "/api/v1/block", because("entry", "192.0.2.0/24", "for", "1h"))
	if got := try(`{"address": "192.0.2.7"}`); got.OK || got.Reason != "denied" || got.Entry != "192.0.2.0/24" {
		t.Errorf("a blocked address: %+v", got)
	}
	x.must("PUT", "/api/v1/exempt", because("entry", "client=acme", "for", "1h"))
	if got := try(`{"client": "acme"}`); !got.OK || got.Reason != "allowed" {
		t.Errorf("an exempt client: %+v", got)
	}
	if n := x.passes(1, "partner", 0); n != 1 {
		t.Error("trying has charged something")
	}
	for body, want := range map[string]string{
		`{"address": "home"}`:                   "must be an address, as 192.0.2.1",
		`{"path": "login"}`:                     `path \"login\": must begin with / and have no query, as /x`,
		`{"path": "/login?next=/"}`:             "must begin with / and have no query, as /x",
		`{"path": "https://example.org/login"}`: "must begin with / and have no query, as /x",
		`{"method": "post", "path": "/login"}`:  `method \"post\": must be in capitals, as GET`,
	} {
		if a := x.send("POST", "/api/v1/try", body, "Authorization", "Bearer "+readSecret); a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 %s", body, a.status, a.body, want)
		}
	}
	w := newWorld(t, threeRules)
	c := w.config()
	c.Rules = new(rules.Live)
	if a := start(t, c).send("POST", "/api/v1/try", `{}`, "Authorization", "Bearer "+readSecret); a.status != 404 {
		t.Errorf("before the rules: %d %s", a.status, a.body)
	}
}

// TestDiffNeedsFrom: a difference from no version names what is missing.
func TestDiffNeedsFrom(t *testing.T) {
	a := instances(t, 1)[0].send("GET", "/api/v1/diff", "", "Authorization", "Bearer "+readSecret)
	if want := "from: is missing; name a version of GET /api/v1/versions"; a.status != 400 || !strings.Contains(a.body, want) {
		t.Errorf("%d %s, want 400 %s", a.status, a.body, want)
	}
}

// TestTryDescriptor: a descriptor is explained by the rules for descriptors.
func TestTryDescriptor(t *testing.T) {
	r := start(t, newWorld(t, manyKinds, "customer").config())
	lists := start(t, newWorld(t, `{"deny": ["203.0.113.0/24"], "allow": ["client=friend"], "rules": []}`).config())
	for _, x := range []struct{ body, rule, why string }{
		{`{"domain": "edge", "descriptor": "user=jane,path=/u/1"}`, "user", ""},
		{`{"domain": "edge", "descriptor": "user=jane"}`, "", "the descriptor is not user, path=/u*"},
		{`{"domain": "other", "descriptor": "user=jane,path=/u/1"}`, "", "domain other is not edge"},
		{`{"path": "/u/1"}`, "", "it is for descriptors only"},
	} {
		var got dryrun.Report
		a := r.send("POST", "/api/v1/try", x.body, "Authorization", "Bearer "+readSecret)
		decode(t, a.body, &got)
		i := slices.IndexFunc(got.Rules, func(one dryrun.Rule) bool { return one.Name == "user" })
		if got.Rule != x.rule || i < 0 || got.Rules[i].Why != x.why {
			t.Errorf("%s: rule %q, %+v; want %q, %q", x.body, got.Rule, got.Rules, x.rule, x.why)
		}
	}
	for _, body := range []string{ // its address is in an entry, and it has nothing that requests have
		`{"domain": "edge", "descriptor": "remote_address=203.0.113.9", "address": "192.0.2.1"}`,
		`{"domain": "edge", "descriptor": "masked_remote_address=203.0.113.0/24", "client": "friend"}`,
	} {
		var got dryrun.Report
		a := lists.send("POST", "/api/v1/try", body, "Authorization", "Bearer "+readSecret)
		if decode(t, a.body, &got); got.OK || got.Entry != "203.0.113.0/24" || got.Way != "take 203.0.113.0/24 out of deny" {
			t.Errorf("%s: %+v, want that 203.0.113.0/24 is in deny", body, got)
		}
	}
	if a := r.send("POST", "/api/v1/try", `{"descriptor": "=x"}`, "Authorization", "Bearer "+readSecret); a.status != 400 || !strings.Contains(a.body, "an entry without a key") {
		t.Errorf("a bad descriptor: %d %s", a.status, a.body)
	}
	for _, half := range []string{`{"descriptor": "user=jane"}`, `{"domain": "edge"}`} {
		if a := r.send("POST", "/api/v1/try", half, "Authorization", "Bearer "+readSecret); a.status != 400 || !strings.Contains(a.body, "as Envoy sends both") {
			t.Errorf("%s: %d %s", half, a.status, a.body)
		}
	}
}
