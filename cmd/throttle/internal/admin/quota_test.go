package admin

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// quoting is a quota service with buckets of users, reported on one stream.
func quoting(t *testing.T, live *rules.Live, users ...string) *throttleenvoy.QuotaService {
	t.Helper()
	service, server := &throttleenvoy.QuotaService{Rules: live}, grpc.NewServer()
	rlqspb.RegisterRateLimitQuotaServiceServer(server, service)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l) // until Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := rlqspb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		id := &rlqspb.BucketId{Bucket: map[string]string{"user": user}}
		err := stream.Send(&rlqspb.RateLimitQuotaUsageReports{Domain: "edge", BucketQuotaUsages: []*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{{BucketId: id, NumRequestsAllowed: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	return service
}

// TestQuota: what Envoys are assigned, in JSON and on the page, bounded; values of
// descriptors are digests.
func TestQuota(t *testing.T) {
	version, err := rules.Parse([]byte(`{"rules": [{"name": "user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "100/s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(version)
	r := start(t, Config{Tokens: tokens, Rules: live, Quota: quoting(t, live, "jane", "john"), ShowKeys: true})
	var is quotaState
	r.get("/api/v1/quota", &is)
	if is.Streams != 1 || is.Buckets != 2 || is.All != 2 || len(is.Limits) != 2 {
		t.Fatalf("two buckets of one stream: %+v", is)
	}
	q := is.Limits[0]
	if q.Rule != "user" || q.Limit != "100/s" || len(q.KeyID) != 16 || q.Key != nil || q.Assigned != 75 || q.Supply < 100 || q.Buckets != 1 || len(q.Envoys) != 1 {
		t.Errorf("a limit that one Envoy shares: %+v", q)
	}
	if e := q.Envoys[0]; !strings.HasPrefix(e.Envoy, "127.0.0.1:") || e.Rate != 75 || e.Burst != 75 || !e.Until.After(e.Reported) {
		t.Errorf("what it is assigned: %+v", e)
	}
	r.get("/api/v1/quota?n=1", &is)
	if len(is.Limits) != 1 || is.All != 2 {
		t.Errorf("n=1: %+v", is)
	}
	read := []string{"Authorization", "Bearer " + readSecret}
	if a := r.send("GET", "/quotas", "", read...); a.status != 200 || !strings.Contains(a.body, is.Limits[0].Envoys[0].Envoy) || strings.Contains(a.body, "jane") || !strings.Contains(a.body, `<a href="/quotas" aria-current="page">`) {
		t.Errorf("the page: %d\n%s", a.status, a.body)
	}
	for path, want := range map[string]string{"?n=0": "from 1 to 1000", "?n=x": "from 1 to 1000", "?n=1001": "from 1 to 1000"} {
		if a := r.send("GET", "/api/v1/quota"+path, "", read...); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 %s", path, a.status, a.body, want)
		}
	}
	none := start(t, Config{Tokens: tokens, Rules: live})
	for path, want := range map[string]string{"/api/v1/quota": "set envoy.quota", "/quotas": "set envoy.quota"} {
		if a := none.send("GET", path, "", read...); a.status != http.StatusNotFound || !strings.Contains(a.body, want) {
			t.Errorf("without a quota service, %s: %d %s, want 404", path, a.status, a.body)
		}
	}
	if a := none.send("GET", "/rules", "", read...); strings.Contains(a.body, `href="/quotas"`) {
		t.Error("without a quota service, the page links to quotas")
	}
}
