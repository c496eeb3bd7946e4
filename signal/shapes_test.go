package signal

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// shape is an answer, and what is read of it.
type shape struct {
	dialect string
	status  int
	fields  string
	body    string
	want    []string // lines of tell
	not     string   // is in none
}

func (c shape) check(t *testing.T) {
	t.Helper()
	d, ok := Named(c.dialect)
	if !ok {
		t.Fatalf("no dialect %s", c.dialect)
	}
	r := d.Read(c.status, lines(c.fields), []byte(c.body), t0)
	got := tell(r)
	for _, want := range c.want {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%s %d %s %s: reads\n%swant the line\n%s", c.dialect, c.status, c.fields, c.body, got, want)
		}
	}
	if c.not != "" && strings.Contains(got, c.not) {
		t.Errorf("%s %d %s %s: reads\n%swant no %q", c.dialect, c.status, c.fields, c.body, got, c.not)
	}
	checkBounds(t, c.fields, r)
}

// TestShapes: fields with several numbers in them, and what other fields add.
func TestShapes(t *testing.T) {
	for _, c := range []shape{
		{"salesforce", 200, "Sforce-Limit-Info: api-usage=18/5000; per-app-api-usage=17/250(appName=x)", "", []string{"limit        requests remaining=4982 limit=5000 window=24h0m0s"}, "policy"},
		{"salesforce", 200, "Sforce-Limit-Info: api-usage", "", []string{"verdict      served"}, "limit"},
		{"shopify", 200, "X-Shopify-Shop-Api-Call-Limit: 45/40", "", []string{"limit        requests remaining=0 limit=40"}, "wait"},
		{"shopify", 200, "X-Shopify-Shop-Api-Call-Limit: many", "", []string{"verdict      served"}, "limit"},
		{
			"shopify", 200, "",
			`{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":10,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":50,"restoreRate":50}}}}`,
			[]string{"verdict      throttled", "policy       points remaining=50 limit=1000 reset=19s"},
			"wait",
		},
		{
			"shopify", 200, "", `{"extensions":{"cost":{"requestedQueryCost":10,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":50,"restoreRate":0}}}}`,
			[]string{"policy       points remaining=50 limit=1000"},
			"reset",
		},
		{"zendesk", 429, "Ratelimit-Remaining: 0\nRatelimit-Reset: 9\nZendesk-Ratelimit-Tickets-Index: total=100; remaining=5; resets=3", "", []string{"wait         9s", "scope        user account"}, "tickets-index requests remaining=0"},
		{"zendesk", 200, "Zendesk-Ratelimit-Tickets-Index: nothing", "", []string{"verdict      served"}, "limit"},
		{"azure", 200, "X-Ms-Ratelimit-Remaining-Resource: A/B3Min;7,;5,C;x,D/E12345Min;9", "", []string{"policy       A/B3Min requests remaining=7 window=3m0s", "policy       D/E12345Min requests remaining=9 window=5h45m0s"}, "C "},
		{"azure", 200, "X-Ms-Ratelimit-Remaining-Resource: " + strings.Repeat("A;1,", maxField), "", []string{"verdict      served"}, "limit"},
		{"meta", 200, `X-App-Usage: {"call_count":10,"total_time":90,"total_cputime":20}`, "", []string{"policy       app percent remaining=10 limit=100"}, "wait"},
		{"meta", 200, `X-App-Usage: {"call_count":250}`, "", []string{"policy       app percent remaining=0 limit=100"}, "wait"},
		{"meta", 429, `X-Business-Use-Case-Usage: {"1":[{"call_count":40,"estimated_time_to_regain_access":2}]}`, "", []string{"wait         2m0s"}, ""},
		{"meta", 429, `X-Business-Use-Case-Usage: {"1":[{"call_count":40,"estimated_time_to_regain_access":0}]}`, "", []string{"by           status"}, "wait"},
		{"meta", 200, `X-App-Usage: {"x":1}`, "", []string{"verdict      served"}, "limit"},
		{"gitlab", 200, "RateLimit-Limit: 600\nRateLimit-Observed: 100", "", []string{"limit        requests remaining=500 limit=600 window=1m0s"}, ""},
		{"gitlab", 200, "RateLimit-Limit: 600\nRateLimit-Observed: 700", "", []string{"limit        requests remaining=0 limit=600 window=1m0s"}, ""},
		{"grpc", 200, "Grpc-Status: 8\nGrpc-Retry-Pushback-Ms: 2147483648", "", []string{"verdict      throttled", "permanent    yes"}, "wait"},
		{"grpc", 200, "Grpc-Status: 8\nGrpc-Retry-Pushback-Ms: 1.5", "", []string{"permanent    yes"}, "wait"},
		{"grpc", 200, "Grpc-Status: 8\nGrpc-Retry-Pushback-Ms: 0", "", []string{"wait         0s"}, "permanent"},
		{"grpc", 200, "Grpc-Status: 14", "", []string{"verdict      failed"}, "permanent"},
		{"grpc", 200, "Grpc-Status: 0", "", []string{"verdict      served"}, "permanent"},
		{"envoy", 200, "X-Envoy-Ratelimited: true", "", []string{"verdict      served"}, "by"},
		{"stripe", 200, "Stripe-Rate-Limited-Reason: global-rate", "", []string{"verdict      served"}, "scope"},
		{"general", 200, `RateLimit: "a";r=5;pk=:YQ==:`, "", []string{"policy       a requests remaining=5 partition=YQ=="}, ""},
	} {
		c.check(t)
	}
}

// TestLimitsBesideOthers: fields that are named after their windows, or after throttlers.
func TestLimitsBesideOthers(t *testing.T) {
	for _, c := range []shape{
		{
			"general", 200, "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Remaining-Minute: 9\nX-RateLimit-Limit-Hour: 10\nX-RateLimit-Remaining-Hour: 9\nRateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 47", "",
			[]string{"policy       minute requests remaining=9 limit=10 window=1m0s reset=47s", "policy       hour requests remaining=9 limit=10 window=1h0m0s"},
			"policy       requests",
		},
		{
			"kong", 200, "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Remaining-Minute: 9\nX-RateLimit-Limit-Hour: 10\nX-RateLimit-Remaining-Hour: 9\nRateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 1847", "",
			[]string{"policy       hour requests remaining=9 limit=10 window=1h0m0s reset=30m47s"},
			"policy       requests",
		},
		{
			"general", 200, "X-RateLimit-Limit-Minute: 10\nX-RateLimit-Remaining-Minute: 9\nRateLimit-Limit: 5\nRateLimit-Remaining: 3\nRateLimit-Reset: 1", "",
			[]string{"policy       minute requests remaining=9 limit=10 window=1m0s", "policy       requests remaining=3 limit=5 reset=1s"},
			"minute requests remaining=9 limit=10 window=1m0s reset",
		},
		{
			"general", 429, "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1\nX-RateLimit-Limit-Long: 100\nX-RateLimit-Remaining-Long: 0\nX-RateLimit-Reset-Long: 33\nRetry-After-Long: 33\nX-Rate-Limit-Remaining: 8", "",
			[]string{"wait         33s", "policy       requests remaining=9 limit=10 reset=1s", "policy       long requests remaining=0 limit=100 reset=33s"},
			"remaining=8",
		},
	} {
		c.check(t)
	}
}

// TestPoliciesAreBounded: what is beyond the sixteenth is not told.
func TestPoliciesAreBounded(t *testing.T) {
	r := general.Read(200, lines(`RateLimit: "a";r=9`+strings.Repeat(`, "a";r=9`, maxPolicies)+`, "b";r=1`), nil, t0)
	if len(r.Policies) != maxPolicies || r.Remaining.V != 9 {
		t.Errorf("%d policies, %d left; want %d, 9", len(r.Policies), r.Remaining.V, maxPolicies)
	}
}

// TestDetails: what stands in the trailer of a gRPC status, torn and absurd.
func TestDetails(t *testing.T) {
	full := "CAgSDlF1b3RhIGV4Y2VlZGVkGoUBCit0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUXVvdGFGYWlsdXJlElYKVAoJcHJvamVjdDoxEiFSZWFkIHJlcXVlc3RzIHBlciBtaW51dGUgcGVyIHVzZXIiJGV4YW1wbGUuZ29vZ2xlYXBpcy5jb20vcmVhZF9yZXF1ZXN0cxo2Cih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgoKCAgDEIDKte4B"
	d, _ := Named("grpc")
	for text, want := range map[string]pace.Opt[time.Duration]{
		full:        pace.Some(3500 * time.Millisecond),
		full + "==": pace.Some(3500 * time.Millisecond),
		full[:100]:  {},
		"!" + full:  {},
		"":          {},
		"////////":  {},
		"CAgaOQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxINCgsI+///////////AQ==": {}, // -5 s
		"CAgaNwoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxILCgkIgICapuqv4wE=":     {}, // 30 million years
		strings.Repeat("A", maxField+1): {},
	} {
		r := d.Read(200, lines("Grpc-Status: 8\nGrpc-Status-Details-Bin: "+text), nil, t0)
		if r.After != want || r.Verdict != pace.Throttled {
			t.Errorf("%.200s: %v, wait %v; want throttled, %v", text, r.Verdict, r.After, want)
		}
	}
	for n := range full { // whatever is cut off
		checkBounds(t, full[:n], d.Read(200, lines("Grpc-Status-Details-Bin: "+full[:n]), nil, t0))
	}
	r := d.Read(200, lines("Grpc-Status: 8\nGrpc-Retry-Pushback-Ms: 7\nGrpc-Status-Details-Bin: "+full), nil, t0)
	if r.After != pace.Some(7*time.Millisecond) {
		t.Errorf("wait %v; want that of the pushback, 7 ms", r.After)
	}
}
