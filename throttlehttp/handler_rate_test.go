package throttlehttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// servedInMinute returns how many of the requests of so many workers h serves in a
// minute, and how many it refuses. Each does what wait says with each answer.
func servedInMinute(h *Handler, workers int, wait func(*http.Response) time.Duration) (served, refused int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(time.Minute)
	for i := range workers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 97 * time.Millisecond)
			for time.Now().Before(end) {
				r := ask(h, "GET", from(fmt.Sprint("192.0.2.1:", i), 1))
				mu.Lock()
				if r.StatusCode == 200 {
					served++
				} else {
					refused++
				}
				mu.Unlock()
				time.Sleep(wait(r) + 10*time.Millisecond)
			}
		})
	}
	all.Wait()
	return served, refused
}

// Callers that wait as they are told, and not else, get most of a limit with a
// small burst if they read milliseconds.
func TestObedientCallersGetTheRate(t *testing.T) {
	obey := func(ms bool) func(*http.Response) time.Duration {
		return func(r *http.Response) time.Duration {
			if r.StatusCode == 200 {
				return 0
			}
			return toldWait(t, r, ms)
		}
	}
	for _, c := range []struct {
		name    string
		workers int
		wait    func(*http.Response) time.Duration
		least   int // of 300
	}{
		{"one, milliseconds", 1, obey(true), 280},
		{"ten, milliseconds", 10, obey(true), 280},
		{"one, seconds", 1, obey(false), 55},
		{"ten, seconds", 10, obey(false), 120},
	} {
		bubble.Test(t, func(t *testing.T) {
			h := &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 5, Period: time.Second, Burst: 1}}, Next: hello}
			served, refused := servedInMinute(h, c.workers, c.wait)
			t.Logf("%s: %d served, %d refused", c.name, served, refused)
			if served < c.least {
				t.Errorf("%s: %d of 300 served, %d refused; want %d", c.name, served, refused, c.least)
			}
		})
	}
}

// A Transport comes close to the rate of a bucket with a small burst, as it
// reads milliseconds and the burst. How close, is a matter of luck: the median of
// nine counts.
func TestTransportGetsTheRate(t *testing.T) {
	bubble.Long(t)
	for _, c := range []struct {
		limit  limit.Limit
		served int // at least, in a minute
	}{
		{limit.Limit{Count: 5, Period: time.Second, Burst: 1}, 210},
		{limit.Limit{Count: 20, Period: time.Second, Burst: 5}, 1000},
		{limit.Limit{Count: 20, Period: time.Second, Burst: 100}, 1100},
	} {
		var all, parts []int // refused of a hundred served
		for range 9 {
			bubble.Test(t, func(t *testing.T) {
				served, refused := transportInMinute(t, c.limit)
				all, parts = append(all, served), append(parts, 100*refused/max(served, 1))
			})
		}
		slices.Sort(all)
		slices.Sort(parts)
		if parts[len(parts)/2] > 20 || parts[len(parts)-1] > 60 { // one minute in a hundred has more than a fifth
			t.Errorf("%v: %d refused of a hundred served, want a median of 20 at most, and 60 at worst", c.limit, parts)
		}
		t.Logf("%v: %d served", c.limit, all)
		if all[len(all)/2] < c.served {
			t.Errorf("%v: %d served in a minute, want a median of %d", c.limit, all, c.served)
		}
	}
}

// transportInMinute has four workers of a Transport call a Handler for a minute.
func transportInMinute(t *testing.T, l limit.Limit) (served, refused int) {
	var mu sync.Mutex
	h := &Handler{Control: &admit.Control{Limit: l}, Next: hello}
	tr := &Transport{Base: &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
		time.Sleep(20 * time.Millisecond)
		a := ask(h, r.Method)
		mu.Lock()
		defer mu.Unlock()
		if a.StatusCode == 200 {
			served++
		} else {
			refused++
		}
		return a, nil
	}}}
	end := time.Now().Add(time.Minute)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				if a, err := tr.RoundTrip(request(t, "POST", "text")); err == nil {
					a.Body.Close()
				}
			}
		})
	}
	all.Wait()
	return served, refused
}

// A refusal of one's own keeps the fields about the limit.
func TestRefuse(t *testing.T) {
	h := &Handler{
		Control: &admit.Control{Store: &book{now: t0}, Limit: limit.Limit{Count: 1, Period: time.Minute}},
		Refuse: func(w http.ResponseWriter, _ *http.Request, e admit.Event) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(Status(e.Verdict))
			fmt.Fprint(w, e.Reason(), " ", e.RetryAfter)
		},
	}
	ask(h, "GET")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	want := `429 | Retry-After: 60 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=1;w=60`
	if got := told(w.Result()); got != want || w.Body.String() != "over 1m0s" || w.Header().Get("Content-Type") != "text/plain" {
		t.Errorf("got %s, %q; want %s and a body of one's own", got, w.Body, want)
	}
	lost := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errors.New("lost") })
	passed := ""
	seen := func(e admit.Event) { passed += fmt.Sprint(e.Verdict, e.Degraded, " ") }
	all := &Handler{Control: &admit.Control{Limit: h.Control.Limit, OnEvent: seen}, Degraded: hello}
	for range 2 {
		ask(all, "GET")
	}
	ask(&Handler{Control: &admit.Control{Store: lost, Limit: h.Control.Limit, OnEvent: seen}}, "GET")
	if passed != "admitted false limited true undecided false " {
		t.Errorf("one served, one degraded, one undecided: Passed is %s", passed)
	}
	h = &Handler{Control: &admit.Control{Store: lost, Limit: h.Control.Limit}, Refuse: h.Refuse}
	if r := ask(h, "GET"); r.StatusCode != 503 || r.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("undecided: %s, want 503 in the same form", told(r))
	}
}
