package egress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// inMemory answers without a network.
type inMemory func(*http.Request) int

func (f inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: f(r), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Retry-After": {"30"}}, Body: io.NopCloser(strings.NewReader("")),
	}, nil
}

// ended is an answer, and when it was there.
type ended struct {
	after      time.Duration
	status     int
	retryAfter string
}

// together sends n requests at once.
func together(t *testing.T, p *Proxy, n int, fields ...string) (all []ended) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	for range n {
		group.Go(func() {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/api/x", nil)
			r.URL.Host, r.Host = "", "localhost"
			for i := 0; i < len(fields); i += 2 {
				r.Header.Set(fields[i], fields[i+1])
			}
			p.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ended{time.Since(began), w.Code, w.Header().Get("Retry-After")})
		})
	}
	group.Wait()
	slices.SortFunc(all, func(a, b ended) int { return int(a.after - b.after) })
	return all
}

// TestPatience: a request whose turn comes too late is refused at once, and told when it
// would come.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		field  string
		served int
		last   time.Duration
	}{{"", 41, 10 * time.Second}, {"2100ms", 9, 2 * time.Second}, {"1h", 41, 10 * time.Second}, {"0s", 1, 0}} {
		bubble.Test(t, func(t *testing.T) {
			p, err := New(Config{APIs: map[string]API{"api": {URL: "http://api.test", Rate: limit.Limit{Count: 4, Period: time.Second}, MaxWait: 10100 * time.Millisecond}}})
			if err != nil {
				t.Fatal(err)
			}
			p.apis[0].plain.Base = inMemory(func(*http.Request) int { return 200 })
			var fields []string
			if c.field != "" {
				fields = []string{waitField, c.field}
			}
			var served, refused []ended
			for _, e := range together(t, p, 50, fields...) {
				if e.status == 200 {
					served = append(served, e)
				} else {
					refused = append(refused, e)
				}
			}
			if len(served) != c.served || served[len(served)-1].after != c.last {
				t.Errorf("%q: %d served, the last after %v, want %d after %v", c.field, len(served), served[len(served)-1].after, c.served, c.last)
			}
			for _, e := range refused {
				if want := map[time.Duration]string{0: "1", 2 * time.Second: "3", 10 * time.Second: "11"}[c.last]; e.after != 0 || e.status != 429 || e.retryAfter != want {
					t.Errorf("%q: answered %+v, want 429 at once with Retry-After: %s", c.field, e, want)
				}
			}
		})
	}
}

// TestLongRetryAfter: what an API asks for beyond the patience is passed on, at once to
// the caller that was refused.
func TestLongRetryAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := proxyOf(t, map[string]string{"api": "http://api.test"})
		p.apis[0].plain.Base = inMemory(func(*http.Request) int { return 429 })
		for i, e := range together(t, p, 3, waitField, "5s") {
			if i == 0 && e.after != 0 || e.after > 5*time.Second || e.status != 429 || e.retryAfter < "24" || e.retryAfter > "39" {
				t.Errorf("answered %+v, want 429 with what is left of 30 s", e)
			}
		}
	})
}

// TestFleet: two processes that share a store keep one rate together.
func TestFleet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var shared memory.Store
		var all [2][]ended
		var both sync.WaitGroup
		for i := range all {
			p, err := New(Config{Store: &shared, APIs: map[string]API{"api": {URL: "http://api.test", Fleet: true, Rate: limit.Limit{Count: 10, Period: time.Second}}}})
			if err != nil {
				t.Fatal(err)
			}
			p.apis[0].plain.Base = inMemory(func(*http.Request) int { return 200 })
			both.Go(func() { all[i] = together(t, p, 50) })
		}
		both.Wait()
		if last := max(all[0][49].after, all[1][49].after); last < 8900*time.Millisecond || last > 10*time.Second {
			t.Errorf("100 calls at 10/s with a burst of 10 ended after %v, want 9 s", last)
		}
	})
}

// TestPriority: while all wait, high priority makes most of the calls.
func TestPriority(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, err := New(Config{APIs: map[string]API{"api": {URL: "http://api.test", Rate: limit.Limit{Count: 10, Period: time.Second}}}})
		if err != nil {
			t.Fatal(err)
		}
		p.apis[0].plain.Base = inMemory(func(*http.Request) int { return 200 })
		var low, high []ended
		var both sync.WaitGroup
		both.Go(func() { low = together(t, p, 100, priorityField, "low") })
		both.Go(func() { high = together(t, p, 100, priorityField, "high") })
		both.Wait()
		if last := high[99].after; last > 11*time.Second || low[99].after < 19*time.Second {
			t.Errorf("high priority ended after %v, low after %v; want 10.6 s and 19.9 s", last, low[99].after)
		}
	})
}
