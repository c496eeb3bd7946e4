package signal

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

func TestFor(t *testing.T) {
	for host, want := range map[string]string{
		"api.github.com": "github", "API.GitHub.com": "github", "api.github.com:443": "github", "api.github.com.": "github",
		"maps.googleapis.com": "googlemaps", "gmail.googleapis.com": "google",
		"notapi.github.com": "general", "api.github.com.evil.example": "general",
		"shop.myshopify.com": "shopify", "myshopify.com": "general", ".myshopify.com": "general", "evilmyshopify.com": "general",
		"dynamodb.eu-central-1.amazonaws.com": "aws", "s3.cn-north-1.amazonaws.com.cn:443": "aws",
		"localhost:8080": "general", "[::1]:8080": "general", "[::1]": "general", "": "general", ":": "general",
	} {
		if got := For(host).Name(); got != want {
			t.Errorf("For(%q) = %s, want %s", host, got, want)
		}
	}
	if d, ok := Named("nobody"); ok || d != nil {
		t.Errorf("Named(nobody) = %v, %v; want none", d, ok)
	}
	if n := testing.AllocsPerRun(100, func() { For("dynamodb.eu-central-1.amazonaws.com:443") }); n != 0 {
		t.Errorf("For makes %v allocations, want none", n)
	}
}

func TestWantsBody(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   bool
	}{
		{"github", 403, true},
		{"github", 429, true},
		{"github", 200, true},
		{"github", 500, false},
		{"aws", 400, true},
		{"aws", 503, true},
		{"aws", 200, false},
		{"aws", 600, false},
		{"shopify", 200, true},
		{"traefik", 429, false},
		{"general", 429, true},
		{"general", 404, true},
		{"general", 200, false},
	} {
		d, _ := Named(c.name)
		if got := d.WantsBody(c.status); got != c.want {
			t.Errorf("%s.WantsBody(%d) = %v, want %v", c.name, c.status, got, c.want)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct{ body, path, want string }{
		{`{"a":"b"}`, "a", "b"},
		{` { "x" : [1, {"a":2}] , "a" : -1.5e3 } `, "a", "-1.5e3"},
		{`{"a":{"b":{"c":true}}}`, "a.b.c", "true"},
		{`{"a":null}`, "a", ""},
		{`{"a":{}}`, "a", "…"},
		{`{"a":[]}`, "a", "…"},
		{`{"a":[{"b":1},{"c":2},{"c":3}]}`, "a.*.c", "2"},
		{`{"a":{"x":{"b":1},"y":{"c":2}}}`, "a.*.c", "2"},
		{`[{"errorCode":"X"}]`, "*.errorCode", "X"},
		{`[{"code":"X"}]`, "[].code", "X"},
		{`[{"a":1},{"code":"X"}]`, "[].code", "X"},
		{`{"a":{"code":"X"}}`, "[].code", ""},
		{`{"[]":{"code":"X"}}`, "[].code", ""},
		{`{"a":[{"code":"X"}]}`, "a.[].code", "X"},
		{`{"a":[[["deep"]]]}`, "a.*.*.*", "deep"},
		{`{"a":"x\"y\\z\/\b\f\n\r\t"}`, "a", "x\"y\\z/\b\f\n\r\t"},
		{`{"a":"\u00e9\ud83d\ude00"}`, "a", "é😀"},
		{`{"a":"\ud83d"}`, "a", "\ufffd"},
		{`{"a":"\ud83dx"}`, "a", "\ufffdx"},
		{`{"a":"\u00`, "a", "\ufffd"},
		{`{"a":"cut of`, "a", "cut of"},
		{`{"a":"b","c":`, "a", "b"},
		{`{"a":"b" "c":1}`, "c", ""},
		{`{"\u0061":1}`, "a", ""},
		{`{"a":1,"a":2}`, "a", "1"},
		{`{"a":"}{][,:"}`, "a", "}{][,:"},
		{`{"skip":{"a":[1,"]}"]},"a":2}`, "a", "2"},
		{`"a"`, "a", ""},
		{``, "a", ""},
		{`{`, "a", ""},
		{`{"a"`, "a", ""},
		{`{"a":`, "a", ""},
		{`nonsense`, "a.b", ""},
		{`{"a":"` + strings.Repeat("é", maxLook) + `"}`, "a", strings.Repeat("é", maxLook/2)},
		{`<?xml version="1.0"?><Error><Code> SlowDown </Code></Error>`, "<Code>", "SlowDown"},
		{`<Codes><Code>A</Code><Code>B</Code>`, "<Code>", "A"},
		{`<Code>cut of`, "<Code>", ""},
		{`Code>`, "<Code>", ""},
		{`{"a":1}`, "<Code>", ""},
	} {
		if got := lookup([]byte(c.body), c.path); got != c.want {
			t.Errorf("lookup(%q, %q) = %q, want %q", c.body, c.path, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	d := For("any.example")
	fields := "Retry-After: soon\nRetry-After-Ms: 90000000\nX-RateLimit-Remaining: many\nX-RateLimit-Reset: 1793955007\nRateLimit: \"a;r=1"
	r, notes := d.Explain(429, lines(fields), nil, t0)
	var got strings.Builder
	for _, n := range notes {
		ignored := ""
		if n.Ignored {
			ignored = "ignored, "
		}
		got.WriteString(n.Field + "=" + n.Value + " " + ignored + n.Says + "\n")
	}
	want := `Retry-After-Ms=90000000 wait 1h0m0s (milliseconds from now, in place of one too long to be believed)
Retry-After=soon ignored, Retry-After-Ms comes first
RateLimit="a;r=1 ignored, not a structured field (RFC 9651)
X-Ratelimit-Remaining=many ignored, not a number from 0 to 999999999999999
X-Ratelimit-Reset=1793955007 reset 30s (guessed: Unix time, seconds)
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if r.By != "Retry-After-Ms" || r.After != pace.Some(FallbackAfter) {
		t.Errorf("by %s, wait %v; want Retry-After-Ms, %v", r.By, r.After, FallbackAfter)
	}
}

func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 200)
	r := For("api.stripe.com").Read(429, lines("Stripe-Rate-Limited-Reason: "+long), nil, t0)
	if r.Reason != "" {
		t.Errorf("an unknown reason is told as %q", r.Reason)
	}
	r = For("example.atlassian.net").Read(429, lines("RateLimit-Reason: x"+long), nil, t0)
	if want := "x" + strings.Repeat("é", 63); r.Reason != want {
		t.Errorf("reason %q, want %q", r.Reason, want)
	}
	r = For("discord.com").Read(200, lines("X-RateLimit-Remaining: 1\nX-RateLimit-Bucket: "+long), nil, t0)
	if want := strings.Repeat("é", 64); r.ScopeName != want {
		t.Errorf("name %q, want %q", r.ScopeName, want)
	}
}

// TestPartOfGraphQLIsFinal: what has run in part must not run again.
func TestPartOfGraphQLIsFinal(t *testing.T) {
	for data, final := range map[string]bool{
		``: false, `"data":null,`: false, `"data":{},`: false, `"data":{"a":null},`: false, `"data":{"a":null,"b":null},`: false,
		`"data":{"a":null,"b":{"id":1}},`: true, `"data":{"a":true},`: true, `"data":[1],`: true, `"data":{"a"`: true,
	} {
		body := `{"errors":[{"type":"RATE_LIMITED"}],` + data + `"extensions":{}}`
		r := heard(t, "api.github.com", 200, "", body)
		if r.Verdict != pace.Throttled || r.Permanent != final {
			t.Errorf("%s: %v, permanent %v; want throttled, %v", body, r.Verdict, r.Permanent, final)
		}
	}
}

// TestAsked: a reset is no wait that the answer asked for.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		status       int
		fields, body string
		want         bool
	}{
		{503, "Retry-After: 5", "", true},
		{503, "Retry-After-Ms: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 5", "", true},
		{503, "", `{"retry_after":5}`, true},
		{503, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 5", "", false},
		{503, "X-RateLimit-Limit: 10\nX-RateLimit-Reset: 5", "", false},
		{503, `RateLimit: "a";r=0;t=5`, "", false},
		{503, "Retry-After: soon\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 5", "", false},
		{429, "", `{"message":"daily limit"}`, false},
	} {
		r := heard(t, "any.example", c.status, c.fields, c.body)
		if r.Asked != c.want || !r.After.OK {
			t.Errorf("%d %s %s: asked %v, wait %v by %s; want %v and a wait", c.status, c.fields, c.body, r.Asked, r.After, r.By, c.want)
		}
	}
}

// A problem document (RFC 9457) that says so makes a refusal final, whatever the
// dialect, and Explain tells of it.
func TestProblemDocumentIsFinal(t *testing.T) {
	const problem = "Content-Type: application/problem+json; charset=utf-8\nRetry-After: 5"
	for _, c := range []struct {
		host, fields, body string
		status             int
		final              bool
	}{
		{"any.example", problem, `{"retryable":false}`, 429, true},
		{"api.github.com", problem, `{"type":"about:blank","retryable":false}`, 429, true},
		{"any.example", problem, `{"retryable":false}`, 503, true},
		{"gitlab.com", problem, `{"retryable":false}`, 429, true}, // whose dialect reads no body
		{"api.github.com", problem, `{"retryable":false}`, 503, true},
		{"any.example", problem, `{"retryable":false}`, 404, false},
		{"any.example", problem, `{"retryable":true}`, 429, false},
		{"any.example", problem, `{"retryable":false`, 429, false},
		{"any.example", "Content-Type: application/json", `{"retryable":false}`, 429, false},
	} {
		r, notes := For(c.host).Explain(c.status, lines(c.fields), []byte(c.body), t0)
		told := slices.ContainsFunc(notes, func(n Note) bool { return n.Field == "body retryable" && !n.Ignored })
		if r.Permanent != c.final || told != c.final || c.final && (r.Verdict != pace.Served || r.After.OK || r.By != "body retryable") {
			t.Errorf("%d %s %s: permanent %v, told %v, %v by %s; want final: %v", c.status, c.fields, c.body, r.Permanent, told, r.Verdict, r.By, c.final)
		}
	}
}

// The standard fields are read of every vendor whose own fields say nothing.
func TestDraftsOfEveryVendor(t *testing.T) {
	h := http.Header{"Ratelimit": {`"minute";r=7;t=30`}, "Ratelimit-Policy": {`"minute";q=100;w=60`}}
	for _, name := range Names() {
		d, _ := Named(name)
		r := d.Read(200, header(h), nil, t0)
		if r.Remaining != pace.Some(int64(7)) || r.Limit != pace.Some(int64(100)) || r.Window != pace.Some(time.Minute) || r.Reset != pace.Some(30*time.Second) {
			t.Errorf("%s: remaining %v of %v in %v, reset in %v; want 7 of 100 in a minute, 30 s", name, r.Remaining, r.Limit, r.Window, r.Reset)
		}
	}
	h.Set("X-Rate-Limit-Limit", "900")
	h.Set("X-Rate-Limit-Remaining", "3")
	if r := For("api.x.com").Read(200, header(h), nil, t0); r.Remaining != pace.Some(int64(3)) || r.Policies != nil {
		t.Errorf("beside fields of the vendor: %+v, want these alone", r)
	}
}

// A server may ask for another try of any error, and of nothing else.
func TestShouldRetry(t *testing.T) {
	for status, want := range map[int]bool{200: false, 399: false, 400: true, 500: true} {
		h := http.Header{"X-Should-Retry": {"true"}}
		if r := general.Read(status, header(h), nil, t0); r.Retryable != want {
			t.Errorf("status %d with X-Should-Retry: true is retryable: %t, want %t", status, r.Retryable, want)
		}
	}
}
