package throttlehttp

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Each of these has been the fault of a published limiter.

// addressRule limits by address, behind the proxies of 10.0.0.0/8.
const addressRule = `{"proxies": {"trusted": "10.0.0.0/8"}, "rules": {"name": "ip", "key": "address", "limits": "1/h"}}`

// byAddress are the ways to limit by address behind a proxy.
func byAddress(t *testing.T) map[string]*Handler {
	one := limit.Limit{Count: 1, Period: time.Hour}
	trusted := rules.Proxies{Trusted: rules.Networks{netip.MustParsePrefix("10.0.0.0/8")}}
	return map[string]*Handler{
		"rules":    {Next: hello, Control: &admit.Control{Rules: live(t, addressRule)}},
		"ClientIP": {Next: hello, Control: &admit.Control{Limit: one}, Request: requests(byKey(ClientIP(trusted)))},
		"RemoteIP": {Next: hello, Control: &admit.Control{Limit: one}},
	}
}

// A caller that writes X-Forwarded-For itself still has one key
// (go-chi/httprate#61).
func TestTrapForwardedForSpoofed(t *testing.T) {
	for name, h := range byAddress(t) {
		for i, want := range []int{200, 429, 429} {
			r := ask(h, "GET", with("from", "192.0.2.1", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Real-IP", fmt.Sprintf("198.51.100.%d", i), "Forwarded", fmt.Sprintf("for=198.51.100.%d", i)))
			if r.StatusCode != want {
				t.Errorf("%s, request %d: %d, want %d", name, i, r.StatusCode, want)
			}
		}
	}
}

// Behind a proxy the leftmost entry is what the caller wrote; the proxy wrote the
// last (ulule/limiter with TrustForwardHeader).
func TestTrapLeftmostForwardedFor(t *testing.T) {
	for name, h := range byAddress(t) {
		if name == "RemoteIP" { // which would see the proxy only
			continue
		}
		for i, want := range []int{200, 429, 429} {
			r := ask(h, "GET", with("from", "10.0.0.7", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d, 192.0.2.1", i)))
			if r.StatusCode != want {
				t.Errorf("%s, request %d: %d, want %d", name, i, r.StatusCode, want)
			}
		}
		if r := ask(h, "GET", with("from", "10.0.0.7", "X-Forwarded-For", "198.51.100.1, 192.0.2.2")); r.StatusCode != 200 {
			t.Errorf("%s: another caller behind the proxy: %d, want 200", name, r.StatusCode)
		}
	}
}

// A caller with one address of an IPv6 network has all of it (ulule/limiter counts /128).
func TestTrapIPv6ByAddress(t *testing.T) {
	for name, h := range byAddress(t) {
		for i, want := range []int{200, 429, 429} {
			r := ask(h, "GET", func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("[2001:db8:1:2:%x::%x]:99", i, i) })
			if r.StatusCode != want {
				t.Errorf("%s, address %d of a network: %d, want %d", name, i, r.StatusCode, want)
			}
		}
	}
}

// A limiter that is not there must neither panic nor answer twice
// (throttled/throttled writes an error and then dereferences nil).
func TestTrapNilLimiter(t *testing.T) {
	for i, h := range []*Handler{
		{},
		{Next: hello},
		{Control: new(admit.Control)},
		{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}},
		{Control: &admit.Control{Rules: new(rules.Live)}},
		{Control: &admit.Control{Rules: live(t, addressRule), Phase: rules.After}},
		{Control: &admit.Control{Rules: live(t, addressRule), Milliseconds: true}, Request: requests(byCaller(RemoteIP)), Headers: 200},
	} {
		for range 2 {
			if r := ask(h, "GET", func(r *http.Request) { r.RemoteAddr = "" }); r.StatusCode != 204 && r.StatusCode != 200 && r.StatusCode != 429 {
				t.Errorf("handler %d: %s", i, told(r))
			}
		}
	}
}

// Retry-After is when it passes, not always a whole window; and the reset moves with
// the clock (go-chi/httprate says a window, didip/tollbooth says 1).
func TestTrapRetryAfterAlwaysAWholeWindow(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 60, Period: time.Hour}, Spread: -1}, Headers: Triple}
	for range 60 {
		ask(h, "GET")
	}
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{0, 60}, {20 * time.Second, 40}, {59 * time.Second, 1}, {59*time.Second + 999*time.Millisecond, 1}} {
		store.now = t0.Add(c.at)
		r := ask(h, "GET")
		for _, name := range []string{"Retry-After", "RateLimit-Reset"} {
			if got, err := strconv.Atoi(r.Header.Get(name)); got != c.want || err != nil {
				t.Errorf("at %v: %s %d, want %d", c.at, name, got, c.want)
			}
		}
	}
}

func TestTrapResetConstant(t *testing.T) {
	for _, headers := range []Headers{Triple, XTriple, XTripleUnix} {
		store := &book{now: t0}
		h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: time.Hour}}, Headers: headers}
		name := map[Headers]string{Triple: "RateLimit-Reset", XTriple: "X-RateLimit-Reset", XTripleUnix: "X-RateLimit-Reset"}[headers]
		for _, at := range []time.Duration{0, time.Minute, 59 * time.Minute, 61 * time.Minute} {
			store.now = t0.Add(at)
			ends := t0.Add(at).Truncate(time.Hour).Add(time.Hour)
			want := int64(ends.Sub(store.now).Seconds())
			if headers == XTripleUnix {
				want = ends.Unix()
			}
			if got := ask(h, "GET").Header.Get(name); got != fmt.Sprint(want) {
				t.Errorf("dialect %d after %v: %s %s, want %d", headers, at, name, got, want)
			}
		}
	}
}

// The Unix time at which a window ends is the same whether it is told with a refusal
// or not, at any part of a second.
func TestTrapResetLaterWhenRefused(t *testing.T) {
	ends := t0.Truncate(time.Hour).Add(time.Hour)
	for _, before := range []time.Duration{time.Minute, 1500 * time.Millisecond, time.Millisecond} {
		store := &book{now: ends.Add(-before)}
		h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Kind: limit.FixedWindow, Count: 1, Period: time.Hour}}, Headers: XTripleUnix}
		for i := range 3 {
			store.now = store.now.Add(100 * time.Microsecond)
			if got := ask(h, "GET").Header.Get("X-RateLimit-Reset"); got != fmt.Sprint(ends.Unix()) {
				t.Errorf("%v before the end, request %d: X-RateLimit-Reset %s, want %d", before, i, got, ends.Unix())
			}
		}
	}
}

// Where the field that makes the key is missing, the limit must not be skipped
// without anybody having said so (didip/tollbooth).
func TestTrapKeyFromHeaderSilentlySkipped(t *testing.T) {
	for _, c := range []struct {
		missing string
		want    []int
	}{{"", []int{200, 429}}, {`, "missing": "refuse"`, []int{400, 400}}, {`, "missing": "pass"`, []int{200, 200}}} {
		h := &Handler{Control: &admit.Control{Rules: live(t, `{"rules": {"name": "key", "key": "header:X-Key", "limits": "1/h"`+c.missing+`}}`)}, Next: hello}
		for i, want := range c.want {
			if r := ask(h, "GET"); r.StatusCode != want {
				t.Errorf("missing%s, request %d: %s, want %d", c.missing, i, told(r), want)
			}
		}
	}
	h := &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}, Request: requests(byKey(func(r *http.Request) string { return r.Header.Get("X-Key") })), Next: hello}
	ask(h, "GET")
	if r := ask(h, "GET"); r.StatusCode != 429 {
		t.Errorf("requests without the field share a key: %s, want 429", told(r))
	}
}

// A refusal counts once, and costs nothing: refused requests do not move the time
// at which it will pass.
func TestTrapDenialsAreCounted(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 1, Period: time.Second}}, Next: hello}
	for range 100 {
		ask(h, "GET")
	}
	store.now = t0.Add(time.Second)
	if r := ask(h, "GET"); r.StatusCode != 200 {
		t.Errorf("after 99 refusals and a second: %s, want 200", told(r))
	}
}
