//go:build unix

package serve

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const bothFile = `version: 1
rules: {file: rules.yaml, overlay: overlay.json}
gateway:
  listen: 127.0.0.1:0
  routes: {to: TO}
envoy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0, token: "0123456789abcdef"}
drain: {delay: 0s, timeout: 5s}
log: {level: info}
`

const bothRules = `rules:
  - {name: requests, limits: 1/h}
  - {name: user, match: {domains: edge, descriptor: user}, key: entry:user, limits: 2/h}
`

// asking asks the service for Envoy about a user of the domain edge, n times: o is OK, x
// over limit.
func (r *running) asking(user string, n int) (got string) {
	r.t.Helper()
	return r.askingBy(&descriptorpb.RateLimitDescriptor{Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}, n)
}

// askingBy is asking about any descriptor.
func (r *running) askingBy(d *descriptorpb.RateLimitDescriptor, n int) (got string) {
	r.t.Helper()
	var at struct{ Envoy string }
	if err := json.Unmarshal([]byte(r.said("serving")), &at); err != nil {
		r.t.Fatal(err)
	}
	conn, err := grpc.NewClient(at.Envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	for range n {
		out, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(r.t.Context(), &rlspb.RateLimitRequest{
			Domain: "edge", Descriptors: []*descriptorpb.RateLimitDescriptor{d},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		got += map[bool]string{true: "o", false: "x"}[out.GetOverallCode() == rlspb.RateLimitResponse_OK]
	}
	return got
}

// TestEnvoy: a gateway and the service for Envoy share rules, store and operators, and
// neither is subject to the rules of the other.
func TestEnvoy(t *testing.T) {
	r := start(t, folder(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "f.yaml", bothFile, "rules.yaml", bothRules), "f.yaml")
	if got := r.asking("jane", 3); got != "oox" {
		t.Errorf("a user: %s", got)
	}
	if got := r.statuses(2, "/"); got != "200 429" {
		t.Errorf("requests: %s", got)
	}
	put := func(path, body string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer 0123456789abcdef")
		q.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Fatalf("PUT %s: %s", path, a.Status)
		}
	}
	put("/api/v1/raise", `{"rule": "user", "key": ["jane"], "times": 2, "for": "1h", "why": "launch"}`)
	if got := r.asking("jane", 3) + r.asking("john", 3); got != "ooxoox" {
		t.Errorf("after a raise of one user: %s", got)
	}
	put("/api/v1/block", `{"entry": "entry:user=johnny", "for": "1h", "why": "abuse"}`)
	if got := r.asking("johnny", 1) + r.asking("ann", 1); got != "xo" {
		t.Errorf("after a block: %s", got)
	}
	_, metrics := get(t, r.admin+"/metrics", "Authorization", "Bearer 0123456789abcdef")
	if !strings.Contains(metrics, `rule="user"`) {
		t.Errorf("no decision of the rule in the metrics:\n%s", metrics)
	}
	r.write("rules.yaml", strings.Replace(bothRules, "2/h", "50/h", 1))
	r.hangup("reloaded")
	for began := time.Now(); r.asking("ann", 9) != "ooooooooo"; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("new rules are not in use")
		}
	}
	file, err := os.ReadFile(filepath.Join(r.dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("f.yaml", strings.Replace(string(file), "envoy: {listen: 127.0.0.1:0}", "envoy: {listen: 127.0.0.1:0, silent: true}", 1))
	r.said("restart to put this into use", "envoy.silent")
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEnvoyAlone: the service for Envoy needs neither a gateway nor an admin role.
func TestEnvoyAlone(t *testing.T) {
	r := start(t, folder(t, nil, "f.yaml", "version: 1\nrules: {file: rules.yaml}\nenvoy: {listen: {address: 127.0.0.1:0}, spread: 1ms}\ndrain: {delay: 0s}\n", "rules.yaml", bothRules), "f.yaml")
	if got := r.asking("jane", 3); got != "oox" {
		t.Errorf("a user: %s", got)
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEnvoyQuota: the quota service shares the rules and the counts of the rate limit
// service, tells operators what is reported, and ends its streams with the program.
func TestEnvoyQuota(t *testing.T) {
	r := start(t, folder(t, nil, "f.yaml", "version: 1\nrules: {file: rules.yaml}\nenvoy: {listen: 127.0.0.1:0, quota: {max_streams: 1}}\nadmin: {listen: 127.0.0.1:0}\ndrain: {delay: 0s}\n", "rules.yaml", bothRules), "f.yaml")
	var at struct{ Envoy string }
	if err := json.Unmarshal([]byte(r.said("serving")), &at); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(at.Envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := rlqspb.NewRateLimitQuotaServiceClient(conn)
	stream, err := client.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report := &rlqspb.RateLimitQuotaUsageReports{Domain: "edge", BucketQuotaUsages: []*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{
		{BucketId: &rlqspb.BucketId{Bucket: map[string]string{"user": "jane"}}, NumRequestsAllowed: 2},
	}}
	if err := stream.Send(report); err != nil {
		t.Fatal(err)
	}
	out, err := stream.Recv()
	if err != nil || len(out.GetBucketAction()) != 1 || out.GetBucketAction()[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket() == nil {
		t.Fatalf("a first report: %v, %v; want a token bucket", out, err)
	}
	if got := r.asking("jane", 1) + r.asking("john", 3); got != "xoox" {
		t.Errorf("after two requests of jane by the quota service: %s", got)
	}
	second, err := client.StreamRateLimitQuotas(t.Context())
	if err == nil {
		_, err = second.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream beyond max_streams: %v", err)
	}
	_, metrics := get(t, r.admin+"/metrics")
	for _, want := range []string{`quota_streams{.*throttle_name="serve".*} 1`, `quota_requests_total{.*throttle_outcome="admitted".*} 2`, `quota_assignments_total{.*throttle_outcome="changed".*} 1`} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("the metrics have not %s", want)
		}
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on after the end of the program")
	}
}
