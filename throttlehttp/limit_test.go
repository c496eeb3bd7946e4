package throttlehttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// TestLimit: all handlers that one Limit wraps share what a key may use; keys,
// and calls of Limit, do not.
func TestLimit(t *testing.T) {
	served := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	two := limit.Limit{Count: 2, Period: time.Hour}
	byAddress := throttlehttp.Limit(two, nil)
	a, b := byAddress(next), byAddress(next)
	byKey := throttlehttp.Limit(two, func(r *http.Request) string { return r.Header.Get("X-Key") })(next)
	for i, c := range []struct {
		h          http.Handler
		from, key  string
		want, sums int
	}{
		{a, "192.0.2.1:1", "", 200, 1},
		{b, "192.0.2.1:2", "", 200, 2},
		{a, "192.0.2.1:1", "", 429, 2},
		{b, "192.0.2.1:1", "", 429, 2},
		{b, "192.0.2.2:1", "", 200, 3},
		{byKey, "192.0.2.1:1", "k", 200, 4},
		{byKey, "192.0.2.3:1", "k", 200, 5},
		{byKey, "192.0.2.4:1", "k", 429, 5},
		{byKey, "192.0.2.4:1", "l", 200, 6},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.from
		r.Header.Set("X-Key", c.key)
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		if w.Code != c.want || served != c.sums || (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%d: %d, %d served, %v; want %d, %d", i, w.Code, served, w.Header(), c.want, c.sums)
		}
	}
}

// TestLimitOfNothing: no handler is a mistake, as in http.ListenAndServe(addr, perAddress(nil)).
func TestLimitOfNothing(t *testing.T) {
	defer func() {
		if got, want := recover(), "throttlehttp: Limit: the handler is nil"; got != want {
			t.Errorf("panic %v, want %s", got, want)
		}
	}()
	throttlehttp.Limit(limit.Limit{Count: 1, Period: time.Hour}, nil)(nil)
}
