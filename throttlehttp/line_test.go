package throttlehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A refusal that names its scope stops the requests that are in line already, too.
func TestScopesStopRequestsInLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		end := time.Now().Add(20 * time.Minute)
		var sent atomic.Int64
		base := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			sent.Add(1)
			time.Sleep(50 * time.Millisecond)
			if !time.Now().Before(end) {
				return answer(200, "fine", "X-RateLimit-Resource", "core"), nil
			}
			return answer(429, "", "X-RateLimit-Resource", "core", "X-RateLimit-Remaining", "0", "Retry-After", "1200"), nil
		}}
		tr := &Transport{Base: base}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				a, err := tr.RoundTrip(to(t, "POST", "https://api.github.com/user"))
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
			})
		}
		time.Sleep(19 * time.Minute)
		if n := sent.Load(); n > 1 {
			t.Errorf("%d requests were sent before the Retry-After, want 1", n)
		}
		all.Wait()
		if n := sent.Load(); n != 51 {
			t.Errorf("%d tries of 50 requests, want 51", n)
		}
	})
}

// A crowd that starts together is paced by what the first answer says remains of a scope, which
// no request was known to be subject to when they entered their line.
func TestCrowdIsPacedByTheScopeOfTheFirstAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var (
			mu            sync.Mutex
			window        = -1
			left, refused int
			began         = time.Now()
		)
		base := &wire{reply: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			n := int(time.Since(began) / time.Minute)
			if n != window {
				window, left = n, 30
			}
			told := []string{"X-RateLimit-Resource", "search", "X-RateLimit-Limit", "30", "X-RateLimit-Reset", fmt.Sprint(began.Add(time.Duration(n+1) * time.Minute).Unix())}
			if left == 0 {
				refused++
				return answer(403, `{"message":"API rate limit exceeded"}`, append(told, "X-RateLimit-Remaining", "0")...), nil
			}
			left--
			return answer(200, "fine", append(told, "X-RateLimit-Remaining", fmt.Sprint(left))...), nil
		}}
		tr := &Transport{Base: base}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if a, err := tr.RoundTrip(to(t, "GET", "https://api.github.com/search/code")); err != nil || a.StatusCode != 200 {
					t.Errorf("%v, %v; want 200", a, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 200*time.Second || refused > 3 {
			t.Errorf("100 requests at once on 30 a minute took %v, and %d were refused; want 200 s and 3 at most", took, refused)
		}
	})
}

// A scope that is named without a refusal costs the requests in line no turn.
func TestScopesNamedInPassingCostNoTurn(t *testing.T) {
	for _, url := range []string{"https://api.github.com/user", "https://discord.com/api/users"} {
		bubble.Test(t, func(t *testing.T) {
			base := &wire{reply: func(int, *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				return answer(200, "fine", "X-RateLimit-Resource", "core", "X-RateLimit-Bucket", "abc", "X-RateLimit-Remaining", "4000"), nil
			}}
			tr := &Transport{Base: base, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
				return &throttle.Throttle{Control: &pace.Fixed{Rate: 10}}
			}}}
			began := time.Now()
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					a, err := tr.RoundTrip(to(t, "GET", url))
					if err != nil {
						t.Error(err)
						return
					}
					a.Body.Close()
				})
			}
			all.Wait()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: 100 requests at 10 a second took %v", url, took)
			}
		})
	}
}

// A scope that a refusal names is paced slowly at first. The requests in line are not given up
// for that: they would wait for more than an hour at that pace, which is soon left behind.
func TestRequestsInLineOutlastTheFirstPaceOfAScope(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var n atomic.Int64
		base := &wire{reply: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			if i := n.Add(1); i > 150 && i <= 200 {
				return answer(403, `{"message":"You have exceeded a secondary rate limit."}`, "Retry-After", "60"), nil
			}
			return answer(200, "fine", "X-RateLimit-Resource", "core"), nil
		}}
		tr := &Transport{Base: base}
		var all sync.WaitGroup
		var failed atomic.Int64
		for range 5000 {
			all.Go(func() {
				req := to(t, "GET", "https://api.github.com/user")
				req.Header.Set("Authorization", "Bearer a")
				if _, err := tr.RoundTrip(req); err != nil {
					failed.Add(1)
				}
			})
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); failed.Load() > 0 || took > 10*time.Minute {
			t.Errorf("%d of 5000 requests were given up, and the rest took %v; want none, and 10 minutes", failed.Load(), took)
		}
	})
}

// A request that goes in line once more for a scope that refuses does so within its MaxWait,
// and once, though the server names another scope in each answer.
func TestScopesThatChangeWhileInLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var n atomic.Int64
		base := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			i := n.Add(1)
			name := string(rune('a' + i%20))
			if i == 1 {
				return answer(429, "", "X-RateLimit-Bucket", name, "X-RateLimit-Scope", "shared", "Retry-After", "2"), nil
			}
			return answer(200, "fine", "X-RateLimit-Bucket", name, "X-RateLimit-Remaining", "9"), nil
		}}
		tr := &Transport{Base: base, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{MaxInFlight: 1, MaxWait: 5 * time.Second}
		}}}
		began := time.Now()
		var all sync.WaitGroup
		var served atomic.Int64
		for range 20 {
			all.Go(func() {
				a, err := tr.RoundTrip(to(t, "GET", "https://discord.com/api/users"))
				var e *throttle.Error
				switch waited := time.Since(began); {
				case err == nil:
					io.Copy(io.Discard, a.Body)
					a.Body.Close()
					served.Add(1)
				case !errors.As(err, &e) || e.MayHaveRun || e.Tries > 1:
					t.Errorf("%v, want an Error of a request that was not sent", err)
				case !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
					t.Errorf("%v, want one of a deadline", err)
				case waited > 5*time.Second:
					t.Errorf("it waited for %v, beyond MaxWait: %v", waited, err)
				}
			})
		}
		all.Wait()
		if n := served.Load(); n < 1 || n > 2 {
			t.Errorf("%d served in 5 s, one at a time for a second each, of which 3 s are refused", n)
		}
	})
}

// The retry of a request is subject to the scopes that answers to others have named since
// it was sent.
func TestRetriesAreSubjectToWhatWasLearntMeanwhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const url, cost = "https://x.myshopify.com/admin/api/graphql.json", `"extensions":{"cost":{"requestedQueryCost":100,%s` +
			`"throttleStatus":{"maximumAvailable":2000,"currentlyAvailable":50,"restoreRate":100}}}}`
		var tr *Transport
		base := &wire{reply: func(n int, _ *http.Request) (*http.Response, error) {
			time.Sleep(time.Duration(n+1) * 100 * time.Millisecond)
			switch n {
			case 0:
				return answer(200, `{"data":{},`+fmt.Sprintf(cost, `"actualQueryCost":100,`)), nil
			case 1:
				return answer(200, `{"errors":[{"extensions":{"code":"THROTTLED"}}],`+fmt.Sprintf(cost, "")), nil
			}
			for _, th := range tr.Group().All() {
				for _, s := range th.Status().Scopes {
					if s.Scope == "x.myshopify.com#points" && s.InFlight != 1 {
						t.Errorf("%d in flight in %s while the retry is, want 1", s.InFlight, s.Scope)
					}
				}
			}
			return answer(200, "fine"), nil
		}}
		tr = &Transport{Base: base, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: new(pace.Fixed)}
		}}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				a, err := tr.RoundTrip(to(t, "POST", url))
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
			})
		}
		all.Wait()
		if n := len(base.seen); n != 3 {
			t.Errorf("%d tries of two requests, want 3", n)
		}
	})
}
