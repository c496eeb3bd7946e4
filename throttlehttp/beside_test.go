package throttlehttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/throttlehttp"
)

// twoWindows is a Base whose server allows 5 a second and long a minute, and states both in each answer.
type twoWindows struct {
	store           memory.Store
	tell            func(h http.Header, long int64, d []limit.Decision)
	mu              sync.Mutex
	long            int64
	served, refused int
}

func (s *twoWindows) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := make([]limit.Decision, 2)
	ok, err := s.store.Take(r.Context(), []limit.Ask{
		{Key: "short", Limit: limit.Limit{Kind: limit.FixedWindow, Count: 5, Period: time.Second}, N: 1},
		{Key: "long", Limit: limit.Limit{Kind: limit.FixedWindow, Count: s.long, Period: time.Minute}, N: 1},
	}, d)
	if err != nil {
		return nil, err
	}
	a := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody, Request: r}
	s.served++
	if !ok {
		s.served--
		s.refused++
		a.StatusCode = http.StatusTooManyRequests
		a.Header.Set("Retry-After", up(max(d[0].RetryAfter, d[1].RetryAfter)))
	}
	s.tell(a.Header, s.long, d)
	return a, nil
}

// count returns how many were served, and counts from zero again, by long a minute.
func (s *twoWindows) count(long int64) (served int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served, s.served, s.long = s.served, 0, long
	return served
}

func up(d time.Duration) string { return fmt.Sprint(int((d + time.Second - 1) / time.Second)) }

// draft8 states both as express-rate-limit 8 does, with or without partition keys.
func draft8(keys string) func(http.Header, int64, []limit.Decision) {
	return func(h http.Header, long int64, d []limit.Decision) {
		h.Set("RateLimit", fmt.Sprintf(`"short"; r=%d; t=%s, "long"; r=%d; t=%s`, d[0].Remaining, up(d[0].ResetAfter), d[1].Remaining, up(d[1].ResetAfter)))
		h.Set("RateLimit-Policy", fmt.Sprintf(`"short"; q=5; w=1%s, "long"; q=%d; w=60%[1]s`, keys, long))
	}
}

// kong states both as Kong does.
func kong(h http.Header, long int64, d []limit.Decision) {
	h.Set("X-RateLimit-Limit-Second", "5")
	h.Set("X-RateLimit-Remaining-Second", fmt.Sprint(d[0].Remaining))
	h.Set("X-RateLimit-Limit-Minute", fmt.Sprint(long))
	h.Set("X-RateLimit-Remaining-Minute", fmt.Sprint(d[1].Remaining))
	binds, most := d[0], int64(5)
	if d[1].Remaining < d[0].Remaining {
		binds, most = d[1], long
	}
	h.Set("RateLimit-Limit", fmt.Sprint(most))
	h.Set("RateLimit-Remaining", fmt.Sprint(binds.Remaining))
	h.Set("RateLimit-Reset", up(binds.ResetAfter))
}

// draft7 states the one that binds, and the policies of both.
func draft7(h http.Header, long int64, d []limit.Decision) {
	binds, most := d[0], int64(5)
	if d[1].Remaining < d[0].Remaining {
		binds, most = d[1], long
	}
	h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%s", most, binds.Remaining, up(binds.ResetAfter)))
	h.Set("RateLimit-Policy", fmt.Sprintf("5;w=1, %d;w=60", long))
}

// A caller alone at two windows that a server states side by side spends each: 220 calls take
// two ends of a minute, and little more. It neither spreads the minute, as if it shared it, nor
// runs into its end.
func TestTwoWindowsStatedTogether(t *testing.T) {
	for name, tell := range map[string]func(http.Header, int64, []limit.Decision){
		"draft-08":                     draft8(""),
		"draft-08 with partition keys": draft8("; pk=:M2MwMWViYTExOWUw:"),
		"Kong":                         kong,
	} {
		bubble.Test(t, func(t *testing.T) {
			time.Sleep(7 * time.Second) // into the minute
			s, began := &twoWindows{tell: tell, long: 100}, time.Now()
			client := http.Client{Transport: &throttlehttp.Transport{Base: s}}
			calls := make(chan int)
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range calls {
						r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://api.example.com/", nil)
						a, err := client.Do(r)
						if err != nil {
							t.Error(err)
							continue
						}
						_, _ = io.Copy(io.Discard, a.Body)
					}
				})
			}
			for i := range 220 {
				calls <- i
			}
			close(calls)
			all.Wait()
			took := time.Since(began)
			t.Logf("%s: 220 calls take %v, %d refused", name, took.Round(time.Second), s.refused)
			if took > 2*time.Minute+25*time.Second || s.refused > 5 {
				t.Errorf("%s: 220 calls at 5 a second and 100 a minute take %v, %d refused; want at most 2m25s, 5 refused", name, took, s.refused)
			}
		})
	}
}

// The longer of two windows is raised, from 100 a minute to 1000. What it was does not hold back
// the calls for long.
func TestWindowStatedBesideAnotherIsRaised(t *testing.T) {
	bubble.Long(t)
	for name, tell := range map[string]func(http.Header, int64, []limit.Decision){"draft-08": draft8(""), "Kong": kong, "draft-07": draft7} {
		bubble.Test(t, func(t *testing.T) {
			s := &twoWindows{tell: tell, long: 100}
			client := http.Client{Transport: &throttlehttp.Transport{Base: s}}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer func() { stop(); all.Wait() }()
			for range 8 {
				all.Go(func() { fetch(ctx, &client) })
			}
			time.Sleep(4 * time.Minute)
			before := s.count(1000)
			time.Sleep(5 * time.Minute)
			s.count(1000)
			time.Sleep(time.Minute)
			after := s.count(1000)
			t.Logf("%s: %d served in 4 minutes at 100 a minute, %d in the 6th minute at 1000", name, before, after)
			if before > 500 || after < 200 {
				t.Errorf("%s: %d served in 4 minutes at 100 a minute, %d in the 6th minute at 1000 and 5 a second; want at most 500, and 200", name, before, after)
			}
		})
	}
}
