package signal

import "testing"

// TestAnswersOfOtherLimiters: fields recorded of the limiters that services of other languages use, of
// the versions named. All allow 5 a second.
func TestAnswersOfOtherLimiters(t *testing.T) {
	const served, none = "limit        requests remaining=3 limit=5", "limit        requests remaining=0 limit=5"
	for name, c := range map[string]shape{
		"express-rate-limit 8.7.5, legacy headers": {"general", 429, "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nDate: Mon, 30 Nov 2026 19:47:55 GMT\nX-RateLimit-Reset: 1796068076\nRetry-After: 1", "", []string{"wait         1s", none + " reset=1s"}, ""},
		"express-rate-limit 8.7.5, draft-6":        {"general", 200, "RateLimit-Policy: 5;w=1\nRateLimit-Limit: 5\nRateLimit-Remaining: 3\nRateLimit-Reset: 1", "", []string{served + " window=1s reset=1s"}, "wait"},
		"express-rate-limit 8.7.5, draft-7":        {"general", 200, "RateLimit-Policy: 5;w=1\nRateLimit: limit=5, remaining=3, reset=1", "", []string{served + " window=1s reset=1s"}, "wait"},
		"express-rate-limit 8.7.5, draft-8":        {"general", 429, "RateLimit: \"5-in-1sec\"; r=0; t=1\nRateLimit-Policy: \"5-in-1sec\"; q=5; w=1; pk=:M2MwMWViYTExOWUw:\nRetry-After: 1", "", []string{"wait         1s", none + " window=1s reset=1s"}, ""},
		"rate-limiter-flexible 11.4.0":             {"general", 429, "Retry-After: 0.887\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1796068077\nDate: Mon, 30 Nov 2026 19:47:55 GMT", "", []string{"wait         887ms", none + " reset=887ms"}, ""},
		"rate-limiter-flexible, a Date of JS":      {"general", 200, "Retry-After: 0.976\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: Mon Nov 30 2026 19:47:56 GMT+0000 (Coordinated Universal Time)\nDate: Mon, 30 Nov 2026 19:47:55 GMT", "", []string{"verdict      served", served + " reset=1s"}, ""},
		"@fastify/rate-limit 11.2.0":               {"general", 200, "x-ratelimit-limit: 5\nx-ratelimit-remaining: 3\nx-ratelimit-reset: 1", "", []string{served + " reset=1s"}, "wait"},
		"hono-rate-limiter 0.5.4, draft-7":         {"general", 200, "ratelimit: limit=5, remaining=3, reset=1\nratelimit-policy: 5;w=1", "", []string{served + " window=1s reset=1s"}, "wait"},
		"koa-ratelimit 6.0.0, a fraction of time":  {"general", 200, "X-RateLimit-Remaining: 3\nX-RateLimit-Reset: 1796068077.471496\nX-RateLimit-Limit: 5\nDate: Mon, 30 Nov 2026 19:47:56 GMT", "", []string{served + " reset=1.471496105s"}, "wait"},
		"Flask-Limiter 4.1.1":                      {"general", 429, "Date: Mon, 30 Nov 2026 19:47:56 GMT\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1796068078\nRetry-After: 1", "", []string{"wait         1s", none + " reset=1s"}, ""},
		"slowapi 0.1.10":                           {"general", 200, "date: Mon, 30 Nov 2026 19:47:56 GMT\nx-ratelimit-limit: 5\nx-ratelimit-remaining: 3\nx-ratelimit-reset: 1796068079.1706326\nretry-after: 1", "", []string{"verdict      served", served + " reset=3.1706326s"}, ""},
		"Django REST framework 3.18.3":             {"general", 429, "Retry-After: 1", `{"detail":"Request was throttled. Expected available in 1 second."}`, []string{"verdict      throttled", "wait         1s"}, "limit"},
		"ulule/limiter 3.11.2, no Retry-After":     {"general", 429, "X-Ratelimit-Limit: 5\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1796068078\nDate: Mon, 30 Nov 2026 19:47:57 GMT", "Limit exceeded", []string{"wait         1s", none + " reset=1s"}, ""},
		"sethvargo/go-limiter 0.7.1, RFC 1123":     {"general", 200, "X-Ratelimit-Limit: 5\nX-Ratelimit-Remaining: 3\nX-Ratelimit-Reset: Mon, 30 Nov 2026 19:47:58 UTC\nDate: Mon, 30 Nov 2026 19:47:57 GMT", "", []string{served + " reset=1s"}, "wait"},
		"tollbooth 7.0.2":                          {"general", 429, "Ratelimit-Limit: 5\nRatelimit-Remaining: 0\nRatelimit-Reset: 1\nX-Rate-Limit-Duration: 1\nX-Rate-Limit-Limit: 5.00", "", []string{"wait         1s", none + " reset=1s"}, ""},
		"rack-attack 6.6.1, fields of its README":  {"general", 429, "RateLimit-Limit: 5\nRateLimit-Remaining: 0\nRateLimit-Reset: 1796069953\nDate: Mon, 30 Nov 2026 20:19:12 GMT", "", []string{"wait         1s", none + " reset=1s"}, ""},
	} {
		t.Run(name, c.check)
	}
}
