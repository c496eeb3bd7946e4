package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// status asks h with a header field, and counts the statuses of n answers.
func status(h http.Handler, n int, field, value string) (last *httptest.ResponseRecorder, answers string) {
	count := map[int]int{}
	for range n {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(field, value)
		last = httptest.NewRecorder()
		h.ServeHTTP(last, r)
		count[last.Code]++
	}
	return last, strings.Trim(fmt.Sprint(count), "map[]")
}

// answered is the status and the fields about the limit of an answer.
func answered(w *httptest.ResponseRecorder) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\nRetry-After: %s\nRateLimit: %s\n", w.Code, http.StatusText(w.Code),
		w.Header().Get("Retry-After"), w.Header().Get("RateLimit"))
}

func TestLimitByAPIKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := LimitByAPIKey(nothing)
		w, got := status(h, 21, "X-API-Key", "one")
		if got != "200:20 429:1" {
			t.Errorf("21 requests of one key: %s", got)
		}
		says(t, 1, answered(w))
		if _, got := status(h, 1, "X-API-Key", "two"); got != "200:1" {
			t.Errorf("another key: %s", got)
		}
		time.Sleep(time.Minute / 100)
		if _, got := status(h, 2, "X-API-Key", "one"); got != "200:1 429:1" {
			t.Errorf("the first key a hundredth of a minute later: %s", got)
		}
	})
}

// A network is an http.RoundTripper in memory, as synctest needs it.
type network func(w http.ResponseWriter, r *http.Request)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	n(w, r)
	return w.Result(), nil
}

// get makes a request, and returns when it was answered.
func get(c *http.Client, url string) (time.Time, error) {
	resp, err := c.Get(url)
	if err != nil {
		return time.Now(), err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return time.Now(), err
}

// TestGitHub: used up, and the hour ends soon, and not so soon.
func TestGitHub(t *testing.T) {
	for _, reset := range []time.Duration{5 * time.Minute, 40 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			github := hourly{until: start.Add(reset), left: 10}
			client := GitHub()
			client.Transport.(*throttlehttp.Transport).Base = network(github.serve)
			for range 10 {
				if at, err := get(client, "https://api.github.com/user"); err != nil || at.Sub(start) > 10*time.Second {
					t.Fatalf("while the limit lasts: %v, %v", at, err)
				}
			}
			at, err := get(client, "https://api.github.com/user")
			if github.refused > 1 {
				t.Errorf("%d requests were refused, want one at most", github.refused)
			}
			if reset < 10*time.Minute {
				if err != nil || at.Before(github.began) || at.Sub(github.began) > time.Minute {
					t.Errorf("the next hour begins at %v; served at %v, %v", github.began, at, err)
				}
				return
			}
			if at.Sub(start) > 10*time.Second {
				t.Errorf("given up only at %v", at)
			}
			_, err = get(client, "https://api.github.com/user")
			says(t, 2, fmt.Sprintln(err))
		})
	}
}

// hourly is a limit as GitHub has and reports it.
type hourly struct {
	until, began  time.Time // the end and the begin of an hour
	left, refused int
}

func (l *hourly) serve(w http.ResponseWriter, _ *http.Request) {
	if !time.Now().Before(l.until) {
		l.until, l.began, l.left = l.until.Add(time.Hour), l.until, 5000
	}
	l.left--
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(max(l.left, 0)))
	w.Header().Set("X-RateLimit-Reset", fmt.Sprint(l.until.Unix()))
	w.Header().Set("X-RateLimit-Resource", "core")
	if l.left < 0 {
		l.refused++
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message":"API rate limit exceeded for user ID 1."}`)
	}
}

// TestWorker: five processes with always twenty calls to make.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var shared memory.Store
		var made counts
		for process := range 5 {
			api := Worker(&shared)
			for range 20 {
				made.loop(func() error {
					return api.Do(ctx, func(context.Context) error { return made.call(fmt.Sprint(process)) })
				})
			}
		}
		all := made.wait()
		const least, most = 535, 550 // 50 a second, and a burst of 50
		if all < least || all > most {
			t.Errorf("five processes made %d calls in 10 s, want %d to %d: %v", all, least, most, made.n)
		}
		says(t, 3, fmt.Sprintf("five busy processes, 10 s: %d to %d calls\n", least, most))
		for process, n := range made.n {
			if n < 50 || n > 200 {
				t.Errorf("process %s made %d calls of %d, want about a fifth", process, n, all)
			}
		}
	})
}

// counts counts what loops do, by name.
type counts struct {
	loops sync.WaitGroup
	mu    sync.Mutex
	n     map[string]int
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
}

// call counts a call of 10 ms, so that time passes whatever the limit is.
func (c *counts) call(name string) error {
	time.Sleep(10 * time.Millisecond)
	c.add(name)
	return nil
}

// loop repeats f until it fails.
func (c *counts) loop(f func() error) {
	c.loops.Go(func() {
		for f() == nil {
		}
	})
}

func (c *counts) wait() (all int) {
	c.loops.Wait()
	for _, n := range c.n {
		all += n
	}
	return all
}

// A mortal Store dies by an error, or by not answering.
type mortal struct {
	memory.Store
	dead, silent bool
}

func (m *mortal) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if m.silent {
		<-ctx.Done()
		return false, ctx.Err()
	}
	if m.dead {
		return false, errors.New("dial tcp: connection refused")
	}
	return m.Store.Take(ctx, a, d)
}

func TestLimitOnRedis(t *testing.T) {
	for name, death := range map[string]func(*mortal){
		"an error": func(m *mortal) { m.dead = true }, "silence": func(m *mortal) { m.silent = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			redis := new(mortal)
			h := LimitOnRedis(store.Func(redis.Take), 5, nothing)
			if _, got := status(h, 101, "", ""); got != "200:100 429:1" {
				t.Errorf("101 requests: %s", got)
			}
			death(redis)
			start := time.Now()
			w, got := status(h, 30, "", "")
			if got != "200:20 429:10" {
				t.Errorf("30 requests without Redis, which died by %s: %s", name, got)
			}
			if took := time.Since(start); took > 200*time.Millisecond {
				t.Errorf("30 requests without Redis, which died by %s, took %v", name, took)
			}
			says(t, 4, answered(w))
			time.Sleep(3 * time.Second) // calls to the Store end after 2 s
		})
	}
}

func TestExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		client := Explained(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		tries := 0
		client.Transport.(*throttlehttp.Transport).Base = network(func(w http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 2 {
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		for range 2 {
			if _, err := get(client, "https://api.example.com/things"); err != nil {
				t.Error(err)
			}
		}
		says(t, 7, logged.String())
	})
}

func TestForTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		api := ForTenants()
		api.Control = &pace.Fixed{Rate: 4}
		var made counts
		for _, tenant := range []struct {
			name    string
			pays    bool
			workers int
		}{{"one", true, 10}, {"two", false, 20}, {"three", false, 2}} {
			for range tenant.workers {
				made.loop(func() error {
					return CallFor(ctx, api, tenant.name, tenant.pays, func(context.Context) error {
						return made.call(tenant.name)
					})
				})
			}
		}
		made.wait()
		tens := func(tenant string) int { return (made.n[tenant] + 5) / 10 * 10 } // more or less one by chance
		says(t, 9, fmt.Sprintf("one %d, two %d, three %d\n", tens("one"), tens("two"), tens("three")))
	})
}
