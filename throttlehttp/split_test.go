package throttlehttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// fixture is a real answer, of those that package signal is tested by.
func fixture(t *testing.T, name string) *http.Response {
	t.Helper()
	text, err := os.ReadFile("../signal/testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	a, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	a.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return a
}

// to is a request to a URL.
func to(t *testing.T, method, url string, fields ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	return req
}

// split is a Transport whose server refuses once, by an answer that the
// first request gets, and serves from then on.
type split struct {
	*testing.T
	tr *Transport
}

func newSplit(t *testing.T, refusal func() *http.Response) split {
	w := &wire{reply: func(n int, _ *http.Request) (*http.Response, error) {
		if n == 0 {
			return refusal(), nil
		}
		return answer(200, "fine"), nil
	}}
	return split{t, &Transport{Base: w, Bodies: true}}
}

// refuse makes the request that is refused, and gives it up.
func (s split) refuse(req *http.Request) *throttle.Error {
	s.Helper()
	ctx := throttle.WithOptions(s.Context(), throttle.CallOptions{MaxWait: 2 * time.Second})
	_, err := s.tr.RoundTrip(req.WithContext(ctx))
	var e *throttle.Error
	if !errors.As(err, &e) {
		s.Fatalf("the refused request: %v, want an Error", err)
	}
	return e
}

// waits tells whether a request would have to wait now, and for which scope.
func (s split) waits(req *http.Request) (wait time.Duration, scope string) {
	s.Helper()
	ctx := throttle.WithOptions(s.Context(), throttle.CallOptions{MaxWait: 1})
	_, err := s.tr.RoundTrip(req.WithContext(ctx))
	var e *throttle.Error
	if err != nil && !errors.As(err, &e) {
		s.Fatalf("%v, want an Error or none", err)
	}
	if e == nil {
		return 0, ""
	}
	return e.Wait, e.Scope
}

// A refusal stops what it is about, and nothing else.
func TestScopesSplitByWhatTheServerSays(t *testing.T) {
	slack := func() *http.Response { return answer(429, "", "Retry-After", "30") }
	for _, c := range []struct {
		name    string
		refusal func(*testing.T) *http.Response
		refused string // method and URL
		scope   string
		same    []string // wait too
		other   []string // do not
	}{
		{
			"a resource of GitHub",
			func(*testing.T) *http.Response {
				return answer(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Resource", "search", "X-RateLimit-Limit", "30",
					"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix()))
			},
			"GET https://api.github.com/search/code", "api.github.com/search",
			[]string{"GET https://api.github.com/search/code?q=2"},
			[]string{"GET https://api.github.com/user", "POST https://api.github.com/search/code"},
		},
		{
			"a method of Slack",
			func(*testing.T) *http.Response { return slack() },
			"POST https://slack.com/api/chat.postMessage", "slack.com/POST /api/chat.postMessage",
			[]string{"POST https://slack.com/api/chat.postMessage"},
			[]string{"POST https://slack.com/api/users.list"},
		},
		{
			"a bucket of Discord",
			func(t *testing.T) *http.Response { return fixture(t, "discord-bucket") },
			"POST https://discord.com/api/v10/channels/123456789/messages", "discord.com/abcd1234 123456789",
			[]string{"POST https://discord.com/api/v10/channels/123456789/messages"},
			[]string{"POST https://discord.com/api/v10/channels/42/typing", "GET https://discord.com/api/v10/users/1"},
		},
		{
			"all of Discord",
			func(t *testing.T) *http.Response { return fixture(t, "discord-global") },
			"POST https://discord.com/api/v10/channels/123456789/messages", "",
			[]string{"GET https://discord.com/api/v10/users/1"},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newSplit(t, func() *http.Response { return c.refusal(t) })
				ask := func(line string) *http.Request {
					method, url, _ := strings.Cut(line, " ")
					return to(t, method, url)
				}
				if e := s.refuse(ask(c.refused)); e.Scope != c.scope {
					t.Errorf("the refused one waits for %q, want %q", e.Scope, c.scope)
				}
				for _, line := range c.same {
					if wait, scope := s.waits(ask(line)); wait < time.Second || scope != c.scope {
						t.Errorf("%s waits %v for %q, want long for %q", line, wait, scope, c.scope)
					}
				}
				for _, line := range c.other {
					if wait, scope := s.waits(ask(line)); wait != 0 {
						t.Errorf("%s waits %v for %q, want not", line, wait, scope)
					}
				}
			})
		})
	}
}

// Routes that the server calls one bucket are one.
func TestScopesMergeByWhatTheServerSays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		remaining := "5"
		w := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			if remaining == "0" {
				return answer(429, "", "X-RateLimit-Bucket", "one", "X-RateLimit-Scope", "user", "Retry-After", "60",
					"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "60"), nil
			}
			return answer(200, "", "X-RateLimit-Bucket", "one", "X-RateLimit-Limit", "5",
				"X-RateLimit-Remaining", remaining, "X-RateLimit-Reset-After", "60"), nil
		}}
		s := split{t, &Transport{Base: w}}
		pin := "PUT https://discord.com/api/v10/channels/77/pins"
		get := func(line string) *http.Request {
			method, url, _ := strings.Cut(line, " ")
			return to(t, method, url)
		}
		for _, line := range []string{pin, "DELETE https://discord.com/api/v10/channels/77/pins"} {
			if wait, _ := s.waits(get(line)); wait != 0 {
				t.Fatalf("%s waits %v at first", line, wait)
			}
		}
		remaining = "0"
		s.refuse(get(pin))
		if wait, scope := s.waits(get("DELETE https://discord.com/api/v10/channels/77/pins")); wait < time.Minute || scope != "discord.com/one 77" {
			t.Errorf("another route of the bucket waits %v for %q, want a minute for the bucket", wait, scope)
		}
	})
}

// What is limited by user stops that user alone, whose secret no name holds.
func TestScopesSplitByUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response { return fixture(t, "github-secondary-wait") })
		ask := func(user string) *http.Request {
			return to(t, "GET", "https://api.github.com/user", "Authorization", "Bearer secret-of-"+user)
		}
		e := s.refuse(ask("mine"))
		if !strings.HasPrefix(e.Scope, "api.github.com@") || strings.Contains(e.Error(), "secret") {
			t.Errorf("the refused one: %v; want a scope of its user, without the secret", e)
		}
		if wait, scope := s.waits(ask("mine")); wait < time.Second || scope != e.Scope {
			t.Errorf("another one of the user waits %v for %q, want long for %q", wait, scope, e.Scope)
		}
		if wait, scope := s.waits(ask("yours")); wait != 0 {
			t.Errorf("one of another user waits %v for %q, want not", wait, scope)
		}
	})
}

// A refusal for lack of tokens stops what costs tokens.
func TestTokensAreALimitOfTheirOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response { return fixture(t, "openai-tokens") })
		chat := "https://api.openai.com/v1/chat/completions"
		if e := s.refuse(to(t, "POST", chat)); e.Scope != "api.openai.com#tokens" {
			t.Errorf("the refused one waits for %q, want the tokens", e.Scope)
		}
		if wait, scope := s.waits(to(t, "POST", chat)); wait < time.Second || scope != "api.openai.com#tokens" {
			t.Errorf("another one waits %v for %q, want long for the tokens", wait, scope)
		}
		if wait, _ := s.waits(to(t, "GET", "https://api.openai.com/v1/models")); wait != 0 {
			t.Errorf("a list of models waits %v, want not: it was not refused", wait)
		}
	})
}

// A request with a stated cost is paced by that, beside the number of requests.
func TestNeedsOfRequestsArePaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const rate, size = 1000.0, 10_000.0 // tokens a second, bucket
		var mu sync.Mutex
		level, last, served, refused := size, time.Now(), 0, 0
		w := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			level, last = min(level+rate*now.Sub(last).Seconds(), size), now
			cost := float64(r.ContentLength)
			status := 200
			if level < cost {
				status = 429
				refused++
			} else {
				level -= cost
				served += int(cost)
			}
			return answer(status, "", "X-Ratelimit-Limit-Requests", "100000", "X-Ratelimit-Remaining-Requests", "99999",
				"X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Limit-Tokens", fmt.Sprint(size),
				"X-Ratelimit-Remaining-Tokens", fmt.Sprint(int(level)), "X-Ratelimit-Reset-Tokens", "1s"), nil
		}}
		tr := &Transport{Base: w, Needs: func(r *http.Request) []throttle.Need {
			return []throttle.Need{{Scope: "tokens", Cost: r.ContentLength}}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		n := 0
		for i := range 20 {
			all.Go(func() {
				for j := 0; ctx.Err() == nil; j++ {
					text := strings.Repeat("x", 100+200*((i+j)%10))
					req, _ := http.NewRequestWithContext(ctx, "POST", "https://api.openai.com/v1/chat/completions", strings.NewReader(text))
					if a, err := tr.RoundTrip(req); err == nil {
						a.Body.Close()
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		all.Wait()
		n = served + refused
		if used := float64(served) / (600*rate + size); used < 0.93 || refused > n/1000/50 {
			t.Errorf("used %.3f of the tokens, refused %d times; want above 0.93 and next to none", used, refused)
		}
	})
}

// A refusal for too many at once makes it fewer at once, and not slower.
func TestConcurrencyRefusalsDoNotSlowDown(t *testing.T) {
	for host, refusal := range map[string]func() *http.Response{
		"api.stripe.com": func() *http.Response { return fixture(t, "stripe-global-concurrency") },
		"dev.okta.com":   func() *http.Response { return fixture(t, "okta-concurrent") },
		"a.example": func() *http.Response {
			return answer(429, "", "RateLimit-Policy", `"c";q=5;qu="concurrent-requests"`, "RateLimit", `"c";r=0`)
		},
	} {
		t.Run(host, func(t *testing.T) { crowds(t, host, refusal) })
	}
}

// crowds calls a server that serves five requests at once for a minute, by thirty callers.
func crowds(t *testing.T, host string, refusal func() *http.Response) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		inside, served, refused := 0, 0, 0
		w := &wire{reply: func(int, *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if inside >= 5 {
				refused++
				return refusal(), nil
			}
			inside++
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			inside--
			served++
			return answer(200, ""), nil
		}}
		tr := &Transport{Base: w}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := tr.RoundTrip(to(t, "GET", "https://"+host+"/v1/charges").WithContext(ctx)); err != nil {
						return
					}
				}
			})
		}
		all.Wait()
		if served < 2850 || refused > 60 {
			t.Errorf("of 50 a second that are possible in a minute: served %d, refused %d; want nearly 3000, and few", served, refused)
		}
		th := tr.enter(host).Throttle()
		if got := th.Learnt(); got != (pace.Learnt{}) {
			t.Errorf("it was slowed down: %+v", got)
		}
		for _, s := range th.Status().Scopes {
			if s.Why.Rate > 0 {
				t.Errorf("its scope was slowed down: %+v", s)
			}
		}
	})
}

// However many routes a server names, so many are remembered.
func TestSplitsAreBounded(t *testing.T) {
	var s splits
	for i := range 3 * keptRoutes {
		s.learn(fmt.Sprint(i), throttle.Need{Scope: "x"}, "")
	}
	if n := len(s.now) + len(s.before); n > 2*keptRoutes || len(s.of(fmt.Sprint(3*keptRoutes-1))) != 1 {
		t.Errorf("%d routes are remembered, want %d at most, and the last", n, 2*keptRoutes)
	}
	for i := range 100 {
		s.learn("route", throttle.Need{Scope: fmt.Sprint(i)}, "")
	}
	if n := len(s.of("route")); n != maxNeeds {
		t.Errorf("a route has %d needs, want %d at most", n, maxNeeds)
	}
}

func TestRoutes(t *testing.T) {
	for path, want := range map[string]string{
		"/api/chat.postMessage":                              "GET /api/chat.postMessage",
		"/v1/charges/ch_3NgZXb2eZvKYlo2C":                    "GET /v1/charges/*",
		"/repos/throttle/throttle/issues/42":                 "GET /repos/throttle/throttle/issues/*",
		"/x/2fa1d0a4-0000-4000-8000-000000000000/y":          "GET /x/*/y",
		"/services/T0AB1/B0CD2EF34/abCDefGHijKLmnOPqrSTuvWX": "GET /services/T0AB1/*/*",
		"/v1/listCustomerSubscriptionsOfAll":                 "GET /v1/listCustomerSubscriptionsOfAll",
		"/v1/users":                                          "GET /v1/users",
		"/" + strings.Repeat("long", 100):                    "GET /" + strings.Repeat("long", 49) + "lon",
		"/2024-10/orders.json":                               "GET /2024-10/orders.json",
		"/api/v10/channels/123456789/messages/987654321":     "GET /api/v10/channels/*/messages/*",
	} {
		if got := routeOf(&http.Request{URL: &url.URL{Path: path}}); got != want {
			t.Errorf("route of %q = %q, want %q", path, got, want)
		}
	}
}
