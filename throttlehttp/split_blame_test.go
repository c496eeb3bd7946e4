package throttlehttp

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// A request without credentials is subject to the scopes of its route, and
// nothing else.
func TestWhatWasToldIsAllThatIsNeeded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{reply: func(int, *http.Request) (*http.Response, error) {
			return answer(200, "", "X-RateLimit-Resource", "core", "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4000",
				"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix())), nil
		}}
		tr := &Transport{Base: w}
		user := to(t, "GET", "https://api.github.com/user")
		if _, err := tr.RoundTrip(user); err != nil {
			t.Fatal(err)
		}
		c := &call{req: user, dialect: tr.dialect(user), splits: &tr.splits, name: "api.github.com"}
		got := throttle.OptionsOf(c.options(t.Context(), nil)).Needs
		if len(got) != 1 || got[0].Scope != "api.github.com/core" {
			t.Errorf("the next request needs %q, want api.github.com/core only", got)
		}
	})
}

// A limit that each route has of its own is not taken for one of all routes, because the
// preset has one name for all of them.
func TestLimitsOfRoutesAreApart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := &Transport{Base: &wire{reply: func(int, *http.Request) (*http.Response, error) {
			return answer(200, "", "X-App-Rate-Limit", "100:1", "X-App-Rate-Limit-Count", "1:1", "X-Method-Rate-Limit", "30:10", "X-Method-Rate-Limit-Count", "30:10"), nil
		}}}
		var scopes []string
		for _, path := range []string{"/matches", "/summoners"} {
			req := to(t, "GET", "https://euw1.api.riotgames.com"+path)
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
			c := &call{req: req, dialect: tr.dialect(req), splits: &tr.splits, name: req.URL.Host}
			for _, n := range throttle.OptionsOf(c.options(t.Context(), nil)).Needs {
				scopes = append(scopes, n.Scope)
			}
		}
		if len(scopes) != 2 || scopes[0] == scopes[1] {
			t.Errorf("two routes need %q, want a scope each", scopes)
		}
	})
}

// Discord has a bucket of each kind for each channel: what stops one channel
// stops no other, even by the same route.
func TestBucketsAreOfOneChannel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const messages = "https://discord.com/api/v10/channels/%d/messages"
		s := newSplit(t, func() *http.Response { return fixture(t, "discord-bucket") })
		s.refuse(to(t, "POST", fmt.Sprintf(messages, 123456789)))
		for range 2 { // also when the other has told of its own
			if wait, scope := s.waits(to(t, "POST", fmt.Sprintf(messages, 42))); wait != 0 {
				t.Errorf("another channel waits %v for %q, want not", wait, scope)
			}
			if wait, scope := s.waits(to(t, "POST", fmt.Sprintf(messages, 123456789))); wait < time.Second || scope != "discord.com/abcd1234 123456789" {
				t.Errorf("the same channel waits %v for %q, want long for its bucket", wait, scope)
			}
		}
	})
}

// Where fewer tokens are left than a request costs, they are to blame, though
// they are not used up: also if it is just enough, as the server counts in its
// own way, and may round what remains.
func TestTooFewTokensAreToBlame(t *testing.T) {
	for _, c := range []struct{ requests, tokens, scope string }{
		{"99", "50", "tokens"},
		{"99", "0", "tokens"},
		{"0", "50", ""},
		{"99", "100", "tokens"}, // as many as it is estimated to cost
		{"99", "124", "tokens"},
		{"99", "125", ""},
		{"99", "500", ""}, // neither, so all of it
	} {
		bubble.Test(t, func(t *testing.T) {
			s := newSplit(t, func() *http.Response {
				return answer(429, "", "Retry-After", "30", "X-Ratelimit-Limit-Requests", "100", "X-Ratelimit-Remaining-Requests", c.requests,
					"X-Ratelimit-Reset-Requests", "30s", "X-Ratelimit-Limit-Tokens", "10000", "X-Ratelimit-Remaining-Tokens", c.tokens, "X-Ratelimit-Reset-Tokens", "30s")
			})
			s.tr.Needs = func(r *http.Request) []throttle.Need {
				if r.Method != "POST" {
					return nil
				}
				return []throttle.Need{{Scope: "tokens", Cost: 100}}
			}
			if e := s.refuse(to(t, "POST", "https://api.openai.com/v1/chat/completions")); e.Scope != c.scope {
				t.Errorf("%s requests and %s tokens left: waits for %q, want %q", c.requests, c.tokens, e.Scope, c.scope)
			}
			wait, _ := s.waits(to(t, "GET", "https://api.openai.com/v1/models"))
			if blamed := wait > 0; blamed != (c.scope == "") {
				t.Errorf("%s requests and %s tokens left: what costs no tokens waits %v", c.requests, c.tokens, wait)
			}
		})
	}
}

// A request that costs more than the limit ever allows gets its refusal back, and holds up no other,
// however much it says that it costs.
func TestTooManyTokensHoldUpNobody(t *testing.T) {
	for _, cost := range []int64{10_001, math.MaxInt64} {
		bubble.Test(t, func(t *testing.T) {
			s := newSplit(t, func() *http.Response {
				return answer(429, "", "Retry-After", "30", "X-Ratelimit-Limit-Tokens", "10000", "X-Ratelimit-Remaining-Tokens", "50", "X-Ratelimit-Reset-Tokens", "30s")
			})
			s.tr.Needs = func(r *http.Request) []throttle.Need {
				if r.Method != "POST" {
					return nil
				}
				return []throttle.Need{{Scope: "tokens", Cost: cost}}
			}
			a, err := s.tr.RoundTrip(to(t, "POST", "https://api.openai.com/v1/chat/completions"))
			if err != nil || a.StatusCode != 429 {
				t.Errorf("%d tokens: %v, %v, want the refusal", cost, a, err)
			}
			if wait, _ := s.waits(to(t, "GET", "https://api.openai.com/v1/models")); wait > 0 {
				t.Errorf("%d tokens: what costs none waits %v", cost, wait)
			}
		})
	}
}

// Where requests are used up too, they are to blame alone: what the refused one costs
// of the tokens is not known.
func TestTokensAreNotToBlameBesideRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response {
			return answer(429, "", "Retry-After", "30", "X-Ratelimit-Limit-Requests", "100", "X-Ratelimit-Remaining-Requests", "0",
				"X-Ratelimit-Limit-Tokens", "10000", "X-Ratelimit-Remaining-Tokens", "0")
		})
		if e := s.refuse(to(t, "POST", "https://api.openai.com/v1/chat/completions")); e.Scope != "" {
			t.Errorf("the refused one waits for %q, want the limit of all", e.Scope)
		}
		for _, th := range s.tr.Group().All() {
			if scopes := th.Status().Scopes; len(scopes) > 0 {
				t.Errorf("to blame beside it: %+v", scopes)
			}
		}
	})
}

// Points that each user has of their own stop the one who has used them up, and not
// the points of all.
func TestPointsOfAUserStopThatUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response {
			return answer(400, `{"errors":[{"extensions":{"code":"RATELIMITED"}}]}`,
				"X-RateLimit-Requests-Limit", "1500", "X-RateLimit-Requests-Remaining", "700",
				"X-RateLimit-Complexity-Limit", "250000", "X-RateLimit-Complexity-Remaining", "0",
				"X-RateLimit-Complexity-Reset", fmt.Sprint(time.Now().Add(20*time.Minute).UnixMilli()))
		})
		ask := func(user string) *http.Request {
			return to(t, "POST", "https://api.linear.app/graphql", "Authorization", user)
		}
		e := s.refuse(ask("mine"))
		if wait, scope := s.waits(ask("mine")); wait < 20*time.Minute || scope != e.Scope || !strings.HasPrefix(scope, "api.linear.app@") {
			t.Errorf("the refused one waits for %q, another one of the user %v for %q, want 20 min for the user", e.Scope, wait, scope)
		}
		if wait, scope := s.waits(ask("yours")); wait != 0 {
			t.Errorf("one of another user waits %v for %q, want not", wait, scope)
		}
	})
}

// A scope that a request needs is that of the policy of its name, of several in one unit.
func TestNeedsByTheNameOfAPolicy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response {
			return answer(429, "", "Retry-After", "30", "RateLimit", `"minute";r=900;t=20, "day";r=0;t=40`,
				"RateLimit-Policy", `"minute";q=1000;w=60;qu="tokens", "day";q=100000;w=86400;qu="tokens"`)
		})
		s.tr.Needs = func(*http.Request) []throttle.Need {
			return []throttle.Need{{Scope: "minute", Cost: 100}, {Scope: "day", Cost: 100}}
		}
		if e := s.refuse(to(t, "GET", "https://any.example/")); e.Scope != "day" {
			t.Errorf("the refused one waits for %q, want day", e.Scope)
		}
	})
}

// Of two limits of which one is counted by a partition key, the one that is used up is
// to blame: that of all stops those of other partitions too.
func TestThePartitionThatBindsIsToBlame(t *testing.T) {
	for _, c := range []struct {
		all, mine int
		own       bool // the limit of all is to blame
	}{
		{0, 50, true}, {50, 0, false}, {0, 0, false},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := newSplit(t, func() *http.Response {
				return answer(429, "", "Retry-After", "30",
					"RateLimit", fmt.Sprintf(`"all";r=%d;t=30, "mine";r=%d;t=30`, c.all, c.mine),
					"RateLimit-Policy", `"all";q=100;w=60, "mine";q=60;w=60;pk=:bWU=:`)
			})
			if e := s.refuse(to(t, "GET", "https://a.example/x")); (e.Scope == "") != c.own {
				t.Errorf("%d of all and %d of mine left: waits for %q", c.all, c.mine, e.Scope)
			}
			if wait, _ := s.waits(to(t, "GET", "https://a.example/y")); (wait > 0) != c.own {
				t.Errorf("%d of all and %d of mine left: another route waits %v", c.all, c.mine, wait)
			}
		})
	}
}

// A caller that signs each request is not another user each time.
func TestSignaturesAreNoUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSplit(t, func() *http.Response { return fixture(t, "github-secondary-wait") })
		ask := func(nonce string) *http.Request {
			return to(t, "GET", "https://api.github.com/user", "Authorization", `OAuth oauth_consumer_key="me", oauth_nonce="`+nonce+`"`)
		}
		if e := s.refuse(ask("1")); e.Scope != "" {
			t.Errorf("the refused one waits for %q, want the limit of all", e.Scope)
		}
		if wait, _ := s.waits(ask("2")); wait < time.Second {
			t.Errorf("the next one waits %v, want long", wait)
		}
	})
}

// Of two limits on the tokens of a request, the one that is used up is to blame,
// in whatever order the server tells of them.
func TestTheTighterOfTwoLimitsOnTokensIsToBlame(t *testing.T) {
	for _, limits := range [][2]string{
		{`"minute";r=0;t=20, "day";r=90000;t=40000`, `"minute";q=1000;w=60;qu="tokens", "day";q=100000;w=86400;qu="tokens"`},
		{`"day";r=90000;t=40000, "minute";r=0;t=20`, `"day";q=100000;w=86400;qu="tokens", "minute";q=1000;w=60;qu="tokens"`},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := &wire{reply: func(int, *http.Request) (*http.Response, error) {
				return answer(429, "", "RateLimit", limits[0], "RateLimit-Policy", limits[1]), nil
			}}
			tr := &Transport{Base: w, Tries: -1, Needs: func(*http.Request) []throttle.Need {
				return []throttle.Need{{Scope: "tokens", Cost: 100}}
			}}
			if _, err := tr.RoundTrip(to(t, "GET", "https://any.example/")); err != nil {
				t.Fatal(err)
			}
			for _, th := range tr.Group().All() {
				s := th.Status()
				if len(s.Scopes) != 1 || s.Scopes[0].Why.Throttled.IsZero() || s.Scopes[0].Why.Limit.V != 1000 {
					t.Errorf("%s: scopes %+v, want one that refused, by the limit of a minute", limits[0], s.Scopes)
				}
				if !s.Why.Throttled.IsZero() {
					t.Errorf("%s: the limit of requests %q, want not to blame", limits[0], s.Why)
				}
			}
		})
	}
}

// A crawler calls each path once, so no request of its own is known to be subject to the
// limit that all answers name: when others have used it up, the refused request waits for
// the end of the window, as any other would.
func TestLimitOfPathsThatAreCalledOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const calls, refused = 1600, 1500
		tr := &Transport{Base: &wire{reply: func(n int, _ *http.Request) (*http.Response, error) {
			left, status := 5000-n, 200
			if n == refused {
				left, status = 0, 429
			}
			return answer(status, "", "X-RateLimit-Resource", "core", "X-RateLimit-Limit", "5000",
				"X-RateLimit-Remaining", fmt.Sprint(left), "X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Minute).Unix())), nil
		}}}
		for i := range calls {
			began := time.Now()
			path := fmt.Sprintf("/repos/a/%c%c%c", 'a'+i/676, 'a'+i/26%26, 'a'+i%26)
			a, err := tr.RoundTrip(to(t, "GET", "https://api.github.com"+path))
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			a.Body.Close()
			if took := time.Since(began); took > time.Second && i != refused || took > 70*time.Second {
				t.Errorf("call %d took %v", i, took)
			}
			time.Sleep(time.Second)
		}
	})
}

// HubSpot tells of the limit of a day first, and of that of ten seconds, which refuses: the latter
// paces once, by what remains of it, and not a second time by its refusals alone.
func TestLimitThatRefusesIsTheOneThatIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			window = -1
			left   int
			began  = time.Now()
		)
		tr := &Transport{Base: &wire{reply: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			defer time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if n := int((time.Since(began) + 7*time.Second) / (10 * time.Second)); n != window {
				window, left = n, 100
			}
			told := []string{
				"X-HubSpot-RateLimit-Daily", "250000", "X-HubSpot-RateLimit-Daily-Remaining", "240000",
				"X-HubSpot-RateLimit-Max", "100", "X-HubSpot-RateLimit-Interval-Milliseconds", "10000",
			}
			if left == 0 {
				return answer(429, `{"policyName":"TEN_SECONDLY_ROLLING"}`, append(told, "X-HubSpot-RateLimit-Remaining", "0")...), nil
			}
			left--
			return answer(200, "", append(told, "X-HubSpot-RateLimit-Remaining", fmt.Sprint(left))...), nil
		}}}
		var all sync.WaitGroup
		for range 600 {
			all.Go(func() {
				req := to(t, "GET", "https://api.hubapi.com/crm/v3/objects/contacts")
				req.Header.Set("Authorization", "Bearer a")
				if a, err := tr.RoundTrip(req); err != nil || a.StatusCode != 200 {
					t.Errorf("%v, %v; want 200", a, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 150*time.Second {
			t.Errorf("600 calls on 100 in ten seconds took %v; want 150 s at most", took)
		}
	})
}
