package signal

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// TestCodesAreReadWhereverTheyStand: of hosts that no preset lists, a code of
// the body tells, whatever the status, its case and its place.
func TestCodesAreReadWhereverTheyStand(t *testing.T) {
	places := []string{
		`{"code":%q}`, `{"error":%q}`, `{"error":{"code":%q}}`, `{"error":{"type":%q,"code":400}}`, `{"error":{"code":403,"status":%q}}`,
		`{"errors":[{"code":%q}]}`, `{"errors":[{"error":%q}]}`, `{"error":{"errors":[{"reason":%q}],"code":403}}`, `[{"errorCode":%q}]`,
		`{"errorType":%q}`, `{"error_type":%q,"error_code":"X"}`, `{"__type":"com.example#%s"}`, `<Error><Code>%s</Code></Error>`, `{"errors":[{"extensions":{"code":%q}}]}`,
		`{"title":"x","type":"https://any.example/problems/%s"}`, `{"type":"urn:any:params:error:%s"}`,
	}
	for _, place := range places {
		for _, code := range []string{"rate_limited", "RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "TooManyRequests", "too-many-requests", "ThrottlingException", "Throttled"} {
			for _, status := range []int{400, 403, 429, 500} {
				body := fmt.Sprintf(place, code)
				if r := heard(t, "any.example", status, "", body); r.Verdict != pace.Throttled || r.Permanent || r.Reason != code {
					t.Errorf("%d %s: %v, permanent %v, reason %q; want throttled, %q", status, body, r.Verdict, r.Permanent, r.Reason, code)
				}
			}
		}
		body := fmt.Sprintf(place, "daily_limit_exceeded")
		if r := heard(t, "any.example", 429, "", body); r.Verdict != pace.Served || !r.Permanent {
			t.Errorf("429 %s: %v, permanent %v; want served, final", body, r.Verdict, r.Permanent)
		}
	}
}

// TestOrdinaryAnswersAreNeverThrottled: by no dialect, though they mention the
// words, and though nothing may be left.
func TestOrdinaryAnswersAreNeverThrottled(t *testing.T) {
	bodies := []string{
		``, `{}`, `null`, `[]`, `"rate_limited"`, `Rate limit exceeded`, `<html><title>429 Too Many Requests</title></html>`,
		`{"code":"invalid_request","message":"too many requests in one batch"}`, `{"error":{"code":"forbidden","message":"rate_limited is no field"}}`,
		`{"error":{"code":404,"message":"no such throttle","status":"NOT_FOUND"}}`, `{"errors":[{"field":"rate_limit_exceeded","code":"invalid"}]}`,
		`{"errors":[{"message":"Too many requested items","extensions":{"code":"BAD_USER_INPUT"}}],"data":null}`, `{"data":{"code":"RATE_LIMITED"}}`,
		`{"error":{"errors":[{"reason":"insufficientPermissions"}],"code":403}}`, `{"code":21211,"message":"rate limit","status":400}`, `{"message":"Must have admin rights"}`,
		`{"error":["EQuery:Unknown asset pair"]}`, `{"errors":[{"code":"601","message":"Access token invalid"}]}`, `{"error_id":400,"error_name":"bad_parameter"}`,
		`{"__type":"com.amazonaws#ValidationException"}`, `<Error><Code>AccessDenied</Code></Error>`, `{"error":{"code":190,"message":"Invalid OAuth access token."}}`,
	}
	for _, d := range dialects {
		for _, status := range []int{200, 201, 204, 301, 304, 400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422} {
			for _, body := range bodies {
				for _, fields := range []string{"", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 3\nRateLimit: \"a\";r=1;t=5"} {
					if r := d.Read(status, lines(fields), []byte(body), t0); r.Verdict != pace.Served || r.Permanent {
						t.Errorf("%s: %d %s %q: %v, permanent %v, by %s; want served", d.Name(), status, body, fields, r.Verdict, r.Permanent, r.By)
					}
				}
			}
		}
	}
}

// TestDaysAreNotAskedBySecond: whatever tells that a day is used up, the wait
// is long, or the answer is final.
func TestDaysAreNotAskedBySecond(t *testing.T) {
	for _, c := range []struct {
		host         string
		status       int
		fields, body string
	}{
		{"registry-1.docker.io", 429, "RateLimit-Limit: 100;w=21600\nRateLimit-Remaining: 0;w=21600", ""},
		{"api.linkedin.com", 429, "", `{"message":"Resource level throttle MEMBER DAY limit for calls to this resource is reached."}`},
		{"api.hubapi.com", 429, "", `{"policyName":"DAILY"}`},
		{"openapi.etsy.com", 429, "X-Remaining-This-Second: 9\nX-Remaining-Today: 0", ""},
		{"api.x.com", 429, "X-Rate-Limit-Remaining: 9\nX-App-Limit-24hour-Remaining: 0\nX-App-Limit-24hour-Reset: 1793990977", ""},
		{"www.googleapis.com", 403, "", `{"error":{"errors":[{"reason":"dailyLimitExceeded"}]}}`},
		{"generativelanguage.googleapis.com", 429, "", `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"7s"}]}}`},
		{"api.monday.com", 200, "", `{"errors":[{"extensions":{"code":"DAILY_LIMIT_EXCEEDED"}}]}`},
		{"gateway.example", 429, "", `{"message":"You have exceeded your daily limit of 1000 requests"}`},
		{"gateway.example", 429, "", `{"error":{"message":"The limit of 100 requests per day is reached"}}`},
		{"gateway.example", 429, "", `{"error":"Too many requests, try again in 5 hours."}`},
		{"gateway.example", 429, "RateLimit-Policy: \"m\";q=10;w=60, \"d\";q=1000;w=86400\nRateLimit: \"m\";r=9;t=6, \"d\";r=0", ""},
		{"gateway.example", 429, "X-RateLimit-Limit: 10;w=1, 1000;w=86400\nX-RateLimit-Remaining: 9;w=1, 0;w=86400\nX-RateLimit-Reset: 1", ""},
	} {
		if r := heard(t, c.host, c.status, c.fields, c.body); !r.Permanent && (r.Verdict != pace.Throttled || r.After.V < 10*time.Minute) {
			t.Errorf("%s %d %s %s: %v, wait %v; want ten minutes at least, or final", c.host, c.status, c.fields, c.body, r.Verdict, r.After)
		}
	}
}
