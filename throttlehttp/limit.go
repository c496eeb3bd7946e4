package throttlehttp

import (
	"net/http"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
)

// Limit returns rate limiting middleware: it allows each key l over all the
// handlers that it wraps together, and answers requests above it with 429 (Too
// Many Requests) and Retry-After, as a [Handler] does. key returns the key that
// a request is charged to, such as an API key that was checked: each made-up key
// has an unused limit. If it is empty, or key is nil, that is the address as
// [RemoteIP] has it; requests without an IP address, as those of a Unix socket,
// share one key. Each call of Limit counts by itself, in the memory of this
// process. It is safe for concurrent use. What it returns panics for a nil
// handler, as [http.Handle] does: pass [http.DefaultServeMux] by its name.
//
//	perAddress := throttlehttp.Limit(limit.Limit{Count: 10, Period: time.Second, Burst: 20}, nil)
//	mux.Handle("/search", perAddress(search))
//	mux.Handle("/export", perAddress(export))
func Limit(l limit.Limit, key func(*http.Request) string) func(http.Handler) http.Handler {
	c := &admit.Control{Limit: l}
	var request func(*http.Request, admit.Request) admit.Request
	if key != nil {
		request = func(r *http.Request, q admit.Request) admit.Request {
			q.Key = key(r)
			return q
		}
	}
	return func(next http.Handler) http.Handler {
		if next == nil { // a Handler without Next would answer all with an empty 204
			panic("throttlehttp: Limit: the handler is nil")
		}
		return &Handler{Control: c, Request: request, Next: next}
	}
}
