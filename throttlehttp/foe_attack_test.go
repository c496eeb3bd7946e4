package throttlehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/throttlehttp"
)

// liar is a Base whose server says what chance tells it, until it is honest.
type liar struct {
	mu     sync.Mutex
	chance *rand.Rand
	style  int
	honest bool
	calls  int
	served int
	last   time.Time // that it lied
}

// numbers are what a server might say where a number belongs.
var numbers = []string{
	"0", "1", "-1", "0.5", "1e3", "1e308", "-1e308", "NaN", "Inf", "-Inf", "+Inf", "9223372036854775807",
	"-9223372036854775808", "18446744073709551616", "999999999999999", "9999999999999999999999999", "0x10", "", " ", ",", ";", "\"", "\x00",
	"Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "9999-12-31T23:59:59Z", "253402300799",
	"86400", "3600", "60", "1, 86400", "2024-02-30", "P1D", "१२", "1_000", "00000000000000000001", "1;w=1", "0;w=0", "-0",
}

var names = []string{
	"Retry-After", "Retry-After-Ms", "X-Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Rate-Limit-Reset", "X-RateLimit-Reset-After", "X-Should-Retry",
	"X-RateLimit-Resource", "X-RateLimit-Bucket", "X-RateLimit-Scope", "Date", "Age", "Content-Type", "X-RateLimit-Reset-Requests", "X-RateLimit-Remaining-Tokens",
}

func (l *liar) pick(of []string) string { return of[l.chance.IntN(len(of))] }

// item is an item of RateLimit or RateLimit-Policy, or nearly.
func (l *liar) item() string {
	name := `"` + l.pick([]string{"a", "b", "default", strings.Repeat("n", 300), "\\\"", ""}) + `"`
	for range l.chance.IntN(5) {
		name += ";" + l.pick([]string{"r", "t", "q", "w", "throttle-share", "throttle-burst", "pk", "qu"}) + "=" + l.pick(numbers)
	}
	return name
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	a := &http.Response{StatusCode: 200, Header: make(http.Header), Body: http.NoBody, Request: r, ProtoMajor: 1}
	if l.honest {
		l.served++
		return a, nil
	}
	l.last = time.Now()
	a.StatusCode = []int{200, 200, 429, 429, 503, 502, 403, 301, 99}[l.chance.IntN(9)]
	h := a.Header
	switch l.style {
	case 0: // everything at once
		for range l.chance.IntN(8) {
			h.Add(l.pick(names), l.pick(numbers))
		}
		h.Add("RateLimit", l.item()+", "+l.item())
		h.Add("RateLimit-Policy", l.item())
	case 1: // now a day, now nothing
		a.StatusCode = 429
		h.Set("Retry-After", []string{"0", "86400"}[l.calls%2])
	case 2: // for ever, and at once
		a.StatusCode = 429
		h.Set("Retry-After", "0")
	case 3: // nothing is left, of nothing, for ever
		h.Set("RateLimit", `"a";r=0;t=999999999999999`)
		h.Set("RateLimit-Policy", `"a";q=0;w=999999999999999`)
	case 4: // the smallest share
		h.Set("RateLimit", `"a";r=1;t=1;throttle-share=0.000000000001`)
	case 5: // a wait that contradicts itself
		a.StatusCode = 503
		h["Retry-After"] = []string{"1", "86400", "-5"}
		h.Set("Retry-After-Ms", "NaN")
	case 6: // a bomb
		a.StatusCode = 429
		h.Set("RateLimit", strings.Repeat(`"x";r=0;t=5, `, 5000)+l.item())
		h.Set("RateLimit-Policy", strings.Repeat(`"x";q=9;w=5, `, 5000)+l.item())
		h.Set("X-RateLimit-Reset", strings.Repeat("9", 1<<16))
	case 7: // scopes without end
		a.StatusCode = 429
		h.Set("X-RateLimit-Bucket", fmt.Sprint("b", l.calls))
		h.Set("X-RateLimit-Resource", fmt.Sprint("r", l.calls))
		h.Set("RateLimit", fmt.Sprintf(`"p%d";r=0;t=3;pk=:%s:`, l.calls, "YWJj"))
	case 8: // the body refuses
		a.StatusCode = 200
		h.Set("Content-Type", "application/json")
		a.Body = io.NopCloser(strings.NewReader(`{"errors":[{"type":"RATE_LIMITED","extensions":{"code":"THROTTLED"}}]}` + strings.Repeat(" ", 1<<17)))
	case 9: // where to come again
		a.StatusCode = 307
		h.Set("Location", "http://foe.example/graphql?"+fmt.Sprint(l.calls))
		h.Set("Retry-After", "86400")
	}
	return a, nil
}

const styles = 10

// Whatever a server says, a request ends with its context, or within MaxWait; it
// is not sent without end in little time; and what was learnt from lies is over
// an hour and some minutes after the last.
func TestLyingServer(t *testing.T) {
	bubble.Long(t)
	for style := range styles {
		for seed := range uint64(20) {
			t.Run(fmt.Sprint(style, "/", seed), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { lieAndStop(t, style, seed) })
			})
		}
	}
}

func lieAndStop(t *testing.T, style int, seed uint64) {
	l := &liar{chance: rand.New(rand.NewPCG(seed, uint64(style))), style: style}
	quiet := &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{OnEvent: func(throttle.Event) {}} }}
	client := http.Client{Transport: &throttlehttp.Transport{Base: l, Throttles: quiet, Dialect: func(*http.Request) *signal.Dialect {
		return signal.For([]string{"foe.example", "api.github.com", "shop.myshopify.com"}[seed%3])
	}}}
	get := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began := time.Now()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://foe.example/graphql", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Do(req)
		if took := time.Since(began); took > patience {
			t.Errorf("took %v, longer than its context of %v", took, patience)
		}
		if err == nil {
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
		}
		return err
	}
	var all sync.WaitGroup
	began := time.Now()
	for i := range 4 {
		all.Go(func() {
			for range 25 {
				var e *throttle.Error
				if err := get(time.Duration(1+20*i) * time.Second); errors.As(err, &e) {
					time.Sleep(5 * time.Second) // as one does that was refused
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if most := 100*12 + int(took.Seconds()*20); l.calls > most {
		t.Errorf("%d calls in %v, want at most %d", l.calls, took, most)
	}
	l.honest = true
	time.Sleep(time.Hour + 5*time.Minute - time.Since(l.last))
	began = time.Now()
	for range 200 {
		if err := get(time.Hour); err != nil {
			t.Fatalf("an hour and five minutes after the last lie: %v", err)
		}
	}
	// The slowest rate is one an hour.
	if took := time.Since(began); took > 90*time.Minute {
		t.Errorf("200 requests of an honest server took %v", took)
	}
}
