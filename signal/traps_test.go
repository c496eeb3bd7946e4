package signal

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Each test here is named after what users of other clients suffered.

// heard is what an answer of a host says.
func heard(t *testing.T, host string, status int, fields, body string) Reading {
	t.Helper()
	d := For(host)
	if body != "" && !d.WantsBody(status) {
		t.Errorf("%s does not want the body of %d", d.Name(), status)
	}
	return d.Read(status, lines(fields), []byte(body), t0)
}

func wantWait(t *testing.T, what string, r Reading, want time.Duration) {
	t.Helper()
	if !r.After.OK || r.After.V != want || r.Report().After != want {
		t.Errorf("%s: wait %v by %s, of the report %v; want %v", what, r.After, r.By, r.Report().After, want)
	}
}

// langchainjs 1929, LightRAG 3736, openai-cookbook 2812, fenic 231.
func TestPermanentRefusalIsNotRetried(t *testing.T) {
	for _, c := range []struct{ host, body, reason string }{
		{"api.openai.com", `{"error":{"code":"insufficient_quota"}}`, "insufficient_quota"},
		{"api.openai.com", `{"error":{"type":"insufficient_quota","code":null}}`, "insufficient_quota"},
		{"llm.example", `{"error":{"type":"budget_exceeded"}}`, "budget_exceeded"},
		{"llm.example", `{"error":{"code":"insufficient_quota"}}`, "insufficient_quota"},
		{"api.anthropic.com", `{"error":{"type":"rate_limit_error","message":"over your monthly spend limit"}}`, "over your monthly spend limit"},
	} {
		r := heard(t, c.host, 429, "Retry-After: 600", c.body)
		if o := r.Report(); !r.Permanent || !o.Final || o.Verdict == pace.Throttled || o.After != 0 {
			t.Errorf("%s %s: permanent %v, final %v, %v, wait %v; want permanent, and nothing about the pace", c.host, c.body, r.Permanent, o.Final, o.Verdict, o.After)
		}
		if r.Reason != c.reason {
			t.Errorf("%s %s: reason %q, want %q", c.host, c.body, r.Reason, c.reason)
		}
	}
}

// foyle 82: "giving up after 5 attempts" in place of what the server said.
func TestLastRealErrorIsKept(t *testing.T) {
	for _, c := range []struct {
		host         string
		status       int
		fields, body string
		want         string
	}{
		{"api.openai.com", 429, "", `{"error":{"code":"rate_limit_exceeded"}}`, "rate_limit_exceeded"},
		{"api.github.com", 403, "X-RateLimit-Remaining: 0", `{"message":"API rate limit exceeded for user"}`, "API rate limit exceeded for user"},
		{"api.stripe.com", 429, "Stripe-Rate-Limited-Reason: endpoint-rate", "", "endpoint-rate"},
		{"dynamodb.eu-central-1.amazonaws.com", 400, "X-Amzn-Errortype: ThrottlingException", "", "ThrottlingException"},
		{"graph.facebook.com", 400, "", `{"error":{"code":17,"message":"User request limit reached"}}`, "User request limit reached"},
		{"api.notion.com", 429, "", `{"code":"rate_limited"}`, "rate_limited"},
	} {
		if r := heard(t, c.host, c.status, c.fields, c.body); r.Reason != c.want || r.Verdict != pace.Throttled {
			t.Errorf("%s %d %s %s: %v, reason %q; want throttled, %q", c.host, c.status, c.fields, c.body, r.Verdict, r.Reason, c.want)
		}
	}
}

// sourcegraph 51743: a caller that would rather fail than wait for an hour must
// be told of the hour, not of less.
func TestLongWaitIsToldInFull(t *testing.T) {
	wantWait(t, "an hour", heard(t, "any.example", 503, "Retry-After: 3601", ""), 3601*time.Second)
	wantWait(t, "a reset", heard(t, "gitlab.com", 429, "RateLimit-Remaining: 0\nRateLimit-Reset: 1793984977", ""), 30000*time.Second)
}

// LibreChat agents 357: the same words mean "in a moment" elsewhere.
func TestTransientRefusalIsRetriedWhateverItsWords(t *testing.T) {
	for _, c := range []struct{ host, body string }{
		{"api.scaleway.ai", `{"error":"INSUFFICIENT QUOTA","message":"You exceeded your current limit of tokens per minute."}`},
		{"api.openai.com", `{"error":{"code":"rate_limit_exceeded","message":"insufficient_quota is not what this is"}}`},
		{"api.anthropic.com", `{"error":{"type":"rate_limit_error","message":"exceeded your rate limit"}}`},
	} {
		if r := heard(t, c.host, 429, "", c.body); r.Permanent || r.Verdict != pace.Throttled {
			t.Errorf("%s %s: permanent %v, %v; want throttled for now", c.host, c.body, r.Permanent, r.Verdict)
		}
	}
}

// go-retryablehttp 247 and 295.
func TestRetryAfterIsCapped(t *testing.T) {
	for _, host := range []string{"any.example", "api.github.com", "api.openai.com", "dynamodb.eu-central-1.amazonaws.com"} {
		wantWait(t, host, heard(t, host, 429, "Retry-After: 1000000", ""), FallbackAfter)
		wantWait(t, host, heard(t, host, 429, "Retry-After: 86400", ""), MaxAfter)
		wantWait(t, host, heard(t, host, 429, "Retry-After: 3600", ""), time.Hour)
		for _, bad := range []string{"-5", "NaN", "99999999999", "99999999999999999999", "Wed, 01 Jan 3000 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"} {
			if r := heard(t, host, 429, "Retry-After: "+bad, ""); r.After.OK || r.Verdict != pace.Throttled {
				t.Errorf("%s: Retry-After: %s is a wait of %v; want throttled, and the caller's own backoff", host, bad, r.After.V)
			}
		}
	}
}

// chroncal 105, boundary 4093: an integer of seconds was all that was read.
func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	for fields, want := range map[string]time.Duration{
		"Retry-After: 30":                             30 * time.Second,
		"Retry-After: 2.0":                            2 * time.Second,
		"Retry-After: 0.5":                            500 * time.Millisecond,
		"Retry-After: Fri, 06 Nov 2026 08:50:07 GMT":  30 * time.Second,
		"Retry-After: Friday, 06-Nov-26 08:50:07 GMT": 30 * time.Second,
		"Retry-After: Fri Nov  6 08:50:07 2026":       30 * time.Second,
		"Retry-After-Ms: 1500\nRetry-After: 2":        1500 * time.Millisecond,
		"X-Ms-Retry-After-Ms: 9":                      9 * time.Millisecond,
		"X-Retry-In: 105.7ms":                         105700 * time.Microsecond,
	} {
		wantWait(t, fields, heard(t, "any.example", 429, fields, ""), want)
	}
}

// A field that cannot be read must not hide one that can.
func TestMalformedWaitGivesWayToTheNext(t *testing.T) {
	for _, bad := range []string{"soon", "", "1e3", "0x10", "NaN", "5 s", strings.Repeat("9", 100)} {
		wantWait(t, bad, heard(t, "api.openai.com", 429, "Retry-After-Ms: "+bad+"\nRetry-After: 2", ""), 2*time.Second)
	}
}

// gofri's and octokit's reason to be: the second kind of limit looks like the
// first, with quota left.
func TestSecondaryLimitIsSeen(t *testing.T) {
	plenty := "X-RateLimit-Remaining: 4000\nX-RateLimit-Reset: 1793958577\n"
	secondary := `{"message":"You have exceeded a secondary rate limit. Please wait."}`
	for _, status := range []int{403, 429} {
		r := heard(t, "api.github.com", status, plenty, secondary)
		wantWait(t, "no wait named", r, time.Minute)
		if r.Verdict != pace.Throttled || r.Scope != ScopeUser {
			t.Errorf("%d: %v, scope %v; want throttled, the user", status, r.Verdict, r.Scope)
		}
		wantWait(t, "a wait named", heard(t, "api.github.com", status, plenty+"Retry-After: 7", secondary), 7*time.Second)
		wantWait(t, "nothing left", heard(t, "api.github.com", status, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1793955077", secondary), 100*time.Second)
	}
	if r := heard(t, "api.github.com", 403, plenty, `{"message":"Must have admin rights"}`); r.Verdict != pace.Served || r.After.OK {
		t.Errorf("a plain 403 is %v, wait %v; want served", r.Verdict, r.After)
	}
}

// Traefik 8573: a wait of 106 ms was told as 0, and a reset that is over must
// not become a negative wait.
func TestZeroResetIsNoNegativeWait(t *testing.T) {
	for _, reset := range []string{"0", "-3", "1600000000", "Fri, 06 Nov 2026 08:49:37 GMT"} {
		wantWait(t, reset, heard(t, "any.example", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: "+reset, ""), 0)
	}
	wantWait(t, "traefik", heard(t, "any.example", 429, "X-Retry-In: 106ms", ""), 106*time.Millisecond)
}

// The same name counts seconds here, milliseconds there, and since 1970
// elsewhere.
func TestResetIsReadInTheVendorsUnit(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         time.Duration
	}{
		{"github", "X-RateLimit-Reset: 1793955007", 30 * time.Second},
		{"gitlab", "RateLimit-Reset: 1793955007", 30 * time.Second},
		{"cloudflare", "RateLimit: \"a\";r=0;t=30", 30 * time.Second},
		{"reddit", "X-Ratelimit-Reset: 30", 30 * time.Second},
		{"prisjakt", "X-Rate-Limit-Reset: 30000", 30 * time.Second},
		{"discord", "X-RateLimit-Reset: 1793955007\nX-RateLimit-Reset-After: 30.5", 30500 * time.Millisecond},
		{"openai", "X-RateLimit-Reset-Tokens: 1m30s", 90 * time.Second},
		{"cerebras", "X-RateLimit-Reset-Tokens-Minute: 26.5", 26500 * time.Millisecond},
		{"anthropic", "Anthropic-RateLimit-Tokens-Reset: 2026-11-06T08:50:07Z", 30 * time.Second},
		{"jira", "X-RateLimit-Reset: 2026-11-06T08:50Z", 23 * time.Second},
		{"vimeo", "X-RateLimit-Reset: Fri, 06 Nov 2026 08:50:07 GMT", 30 * time.Second},
		{"lemlist", "X-RateLimit-Reset: Fri Nov 06 2026 08:50:07 GMT+0000 (UTC)", 30 * time.Second},
		// A number that cannot be meant as the preset says is guessed.
		{"github", "X-RateLimit-Reset: 30", 30 * time.Second},
		{"reddit", "X-Ratelimit-Reset: 1793955007", 30 * time.Second},
		{"prisjakt", "X-Rate-Limit-Reset: 1793955007000", 30 * time.Second},
	} {
		d, ok := Named(c.name)
		if !ok {
			t.Fatalf("no dialect %s", c.name)
		}
		wantWait(t, c.name+" "+c.fields, d.Read(429, lines(c.fields), nil, t0), c.want)
	}
}

func TestClockSkewIsCorrected(t *testing.T) {
	for _, now := range []string{"Fri, 06 Nov 2026 03:00:00 GMT", "Sat, 07 Nov 2026 03:00:00 GMT"} {
		theirs, ok := date(now)
		if !ok {
			t.Fatal(now)
		}
		r := heard(t, "api.github.com", 403, "Date: "+now+"\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: "+number(theirs.Unix()+45), "")
		wantWait(t, now, r, 45*time.Second)
	}
}

func TestStaleRemainingOutOfACacheIsIgnored(t *testing.T) {
	for _, d := range dialects {
		fields := "Age: 3\nRateLimit: \"a\";r=0;t=9\n" + strings.Join(places(d), ": 0\n")
		if r := d.Read(200, lines(fields), nil, t0); r.Remaining.OK || r.Limit.OK || r.Reset.OK || r.Policies != nil {
			t.Errorf("%s: %+v out of a cache, want nothing about limits", d.Name(), r)
		}
	}
}

func TestThrottleInsideStatus200IsSeen(t *testing.T) {
	r := heard(t, "example.myshopify.com", 200, "", `{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":100,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":50,"restoreRate":50}}}}`)
	wantWait(t, "what it lacks", r, time.Second)
	if r.Verdict != pace.Throttled || len(r.Policies) != 1 || r.Policies[0].Unit != "points" || r.Remaining.OK {
		t.Errorf("%v with policies %+v; want throttled, points, and no requests", r.Verdict, r.Policies)
	}
}

// 429 is not among the statuses that AWS throttles with; 400 is.
func TestAWSIsReadByCodeNotByStatus(t *testing.T) {
	host := "dynamodb.eu-central-1.amazonaws.com"
	for _, c := range []struct {
		status int
		body   string
		want   pace.Verdict
	}{
		{400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`, pace.Throttled},
		{400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`, pace.Served},
		{503, `<Error><Code>SlowDown</Code></Error>`, pace.Throttled},
		{503, `<Error><Code>ServiceUnavailable</Code></Error>`, pace.Failed},
		{503, ``, pace.Throttled},
		{500, `{"code":"ThrottlingException"}`, pace.Throttled},
	} {
		if r := heard(t, host, c.status, "", c.body); r.Verdict != c.want {
			t.Errorf("%d %s: %v, want %v", c.status, c.body, r.Verdict, c.want)
		}
	}
}

func TestConcurrencyIsNotRate(t *testing.T) {
	for _, c := range []struct {
		host, fields, body string
		want               bool
	}{
		{"api.stripe.com", "Stripe-Rate-Limited-Reason: global-concurrency", "", true},
		{"api.stripe.com", "Stripe-Rate-Limited-Reason: global-rate", "", false},
		{"api.stripe.com", "", `{"error":{"code":"lock_timeout"}}`, true},
		{"api.scaleway.ai", "", `{"error":"INSUFFICIENT QUOTA","message":"You exceeded your current limit of concurrent requests."}`, true},
		{"management.azure.com", "", `{"error":{"code":"RetryableErrorDueToAnotherOperation"}}`, true},
		{"management.azure.com", "", `{"error":{"code":"OperationNotAllowed"}}`, false},
	} {
		if r := heard(t, c.host, 429, c.fields, c.body); r.Concurrency != c.want || r.Verdict != pace.Throttled {
			t.Errorf("%s %s %s: concurrency %v, %v; want %v, throttled", c.host, c.fields, c.body, r.Concurrency, r.Verdict, c.want)
		}
	}
}

func TestLongestOfSeveralEmptyLimitsIsTheWait(t *testing.T) {
	fields := "X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 20s\nX-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 1m0s"
	wantWait(t, "both", heard(t, "api.openai.com", 429, fields, ""), time.Minute)
	fields = strings.Replace(fields, "Tokens: 0", "Tokens: 5", 1)
	wantWait(t, "requests", heard(t, "api.openai.com", 429, fields, ""), 20*time.Second)
}

// A wait below zero says nothing, in any form, and does not hide when the limit resets.
func TestWaitsBelowZeroAreIgnored(t *testing.T) {
	for _, c := range []struct{ fields, body string }{
		{"Retry-After: -5", ""},
		{"Retry-After: -5s", ""},
		{"Retry-After: \t-1m30s ", ""},
		{"Retry-After-Ms: -5", ""},
		{"", `{"message":"try again in -5 seconds"}`},
		{"", `{"message":"try again in -5s"}`},
		{"", `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-5s"}]}}`},
	} {
		r := heard(t, "a.example", 429, c.fields+"\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60", c.body)
		wantWait(t, c.fields+c.body, r, time.Minute)
	}
	for _, over := range []string{"Fri, 06 Nov 2026 08:49:07 GMT", "2026-11-06T08:49:07Z", "1793954976"} {
		wantWait(t, over, heard(t, "a.example", 429, "Retry-After: "+over, ""), 0)
	}
}

// The draft's unit of a concurrency limit says what a refusal is for.
func TestConcurrentRequestsUsedUp(t *testing.T) {
	const full = `RateLimit-Policy: "c";q=10;qu="concurrent-requests", "r";q=100;w=60` + "\n"
	for _, c := range []struct {
		status int
		fields string
		want   bool
	}{
		{429, `RateLimit: "c";r=0`, true},
		{503, `RateLimit: "r";r=7;t=9, "c";r=0`, true},
		{429, `RateLimit: "c";r=1`, false},
		{429, `RateLimit: "r";r=0;t=9`, false},
		{429, `RateLimit: "c";r=0, "r";r=0;t=9`, false}, // it may be for either
		{200, `RateLimit: "c";r=0`, false},
	} {
		r := heard(t, "a.example", c.status, full+c.fields, "")
		if r.Concurrency != c.want || r.Report().Crowded != c.want {
			t.Errorf("%d %s: concurrency %v, crowded %v; want %v", c.status, c.fields, r.Concurrency, r.Report().Crowded, c.want)
		}
	}
}

// The draft lets either field state the partition key.
func TestPartitionKeyOfEitherField(t *testing.T) {
	for fields, want := range map[string]string{
		"RateLimit-Policy: \"u\";q=100;w=60\nRateLimit: \"u\";r=9;t=30;pk=:YQ==:":                   "YQ==",
		"RateLimit-Policy: \"u\";q=100;w=60;pk=:YQ==:\nRateLimit: \"u\";r=9;t=30":                   "YQ==",
		"RateLimit-Policy: \"u\";q=100;w=60;pk=:YQ==:\nRateLimit: \"u\";r=9;t=30;pk=:Yg==:":         "Yg==",
		"RateLimit-Policy: \"u\";q=100;w=60;pk=:YQ==:":                                              "YQ==",
		"RateLimit-Policy: \"u\";q=9;w=1;pk=:YQ==:, \"v\";q=9;w=1\nRateLimit: \"v\";r=9, \"u\";r=9": " YQ==",
	} {
		r := heard(t, "api.example", 200, fields, "")
		var keys []string
		for _, p := range r.Policies {
			keys = append(keys, p.Partition)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: partition keys %q, want %q", fields, got, want)
		}
	}
}

// A 503 that says nothing of a limit may be a failure like any other.
func TestUnsureOfAPlain503(t *testing.T) {
	for _, c := range []struct {
		preset       string
		status       int
		fields, body string
		want         bool
	}{
		{"general", 503, "", "", true},
		{"general", 503, "RateLimit: \"a\";r=3;t=4", "", true},
		{"general", 503, "RateLimit: \"a\";r=0;t=4", "", false},
		{"general", 503, "Retry-After: 5", "", false},
		{"general", 503, "Retry-After: soon", "", true},
		{"general", 503, "", `{"error":{"code":"rate_limit_exceeded"}}`, false},
		{"general", 429, "", "", false},
		{"general", 500, "", "", false},
		{"general", 200, "", "", false},
		{"github", 503, "", "", true},
		{"nginx", 503, "", "", false}, // limit_req answers so
		{"general", 503, "Content-Type: text/html", nginxPage, false},
		{"general", 503, "Content-Type: text/html", strings.Replace(nginxPage, "<hr><center>nginx/1.26.3</center>\r\n", "", 1), true}, // as of AWS
	} {
		d, _ := Named(c.preset)
		if got := d.Read(c.status, lines(c.fields), []byte(c.body), t0).Report().Unsure; got != c.want {
			t.Errorf("%s: %d, %q, %q is unsure: %v, want %v", c.preset, c.status, c.fields, c.body, got, c.want)
		}
	}
}

// nginxPage is what limit_req answers by default, as nginx 1.26 does.
const nginxPage = "<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n<body>\r\n" +
	"<center><h1>503 Service Temporarily Unavailable</h1></center>\r\n<hr><center>nginx/1.26.3</center>\r\n</body>\r\n</html>\r\n"

// Where one answer tells of several limits, its scope is that of the limit whose numbers the
// Signal holds: another limit's numbers would pace the wrong requests.
func TestScopeIsOfTheLimitThatBinds(t *testing.T) {
	const hubspot = "X-Hubspot-Ratelimit-Daily: 250000\nX-Hubspot-Ratelimit-Max: 100\nX-Hubspot-Ratelimit-Interval-Milliseconds: 10000\n"
	for _, c := range []struct {
		host, fields string
		want         Scope
		left         int64
	}{
		{"api.hubapi.com", hubspot + "X-Hubspot-Ratelimit-Daily-Remaining: 9000\nX-Hubspot-Ratelimit-Remaining: 90", ScopeUser, 90},
		{"api.hubapi.com", hubspot + "X-Hubspot-Ratelimit-Daily-Remaining: 80\nX-Hubspot-Ratelimit-Remaining: 90", ScopeGlobal, 80},
		{"a.zendesk.com", "Ratelimit-Limit: 700\nRatelimit-Remaining: 50\nZendesk-Ratelimit-Tickets-Index: total=100; remaining=90; resets=3", ScopeUser, 50},
		{"a.zendesk.com", "Ratelimit-Limit: 700\nRatelimit-Remaining: 500\nZendesk-Ratelimit-Tickets-Index: total=100; remaining=90; resets=3", ScopeRoute, 90},
		{"api.x.com", "X-Rate-Limit-Limit: 900\nX-Rate-Limit-Remaining: 800\nX-User-Limit-24hour-Limit: 100\nX-User-Limit-24hour-Remaining: 7", ScopeUser, 7},
		{"euw1.api.riotgames.com", "X-App-Rate-Limit: 100:120\nX-App-Rate-Limit-Count: 1:120\nX-Method-Rate-Limit: 30:10\nX-Method-Rate-Limit-Count: 5:10", ScopeRoute, 25},
	} {
		r := heard(t, c.host, 200, c.fields, "")
		if r.Scope != c.want || r.Remaining.V != c.left {
			t.Errorf("%s, %s: %d remain of the limit of a %v; want %d of the %v", c.host, c.fields, r.Remaining.V, r.Scope, c.left, c.want)
		}
	}
}
