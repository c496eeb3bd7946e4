package tasks

import (
	"net/http"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// LimitByAPIKey allows each API key 100 requests a minute, at most 20 at once.
func LimitByAPIKey(api http.Handler) http.Handler {
	perKey := throttlehttp.Limit(
		limit.Limit{Count: 100, Period: time.Minute, Burst: 20},
		func(r *http.Request) string { return r.Header.Get("X-API-Key") },
	)
	return perKey(api)
}
