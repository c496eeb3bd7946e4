package throttlehttp

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// An absurd cost holds up requests for an hour at most, also where it is stated by the first
// answer, so that nothing else is known of what requests cost, and where the rate is set.
func TestAbsurdCostOfTheFirstAnswer(t *testing.T) {
	for name, control := range map[string]func(string) pace.Controller{
		"learnt": nil,
		"set":    func(string) pace.Controller { return &pace.Fixed{Rate: 50} },
	} {
		bubble.Test(t, func(t *testing.T) {
			tr := &Transport{
				Base: &wire{reply: func(n int, _ *http.Request) (*http.Response, error) {
					cost := 10
					if n == 0 {
						cost = 999_999_999_999_999
					}
					return answer(200, fmt.Sprintf(`{"extensions":{"cost":{"actualQueryCost":%d,`+
						`"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":990,"restoreRate":50}}}}`, cost)), nil
				}},
				Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{NewScope: control} }},
			}
			for i := range 4 {
				a, err := tr.RoundTrip(to(t, "POST", "https://shop.myshopify.com/admin/api/graphql.json"))
				if err != nil {
					t.Fatalf("%s: request %d: %v", name, i, err)
				}
				a.Body.Close()
				if i == 0 {
					time.Sleep(time.Hour + time.Minute)
				}
			}
		})
	}
}

// A cost that is stated for "tokens" is for the limit of that name, and not also for that of
// output tokens, of which much less remains, as a request hardly uses any.
func TestCostIsForTheLimitOfItsName(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const input, output, cost = 400_000, 8_000, 3_000
		var used atomic.Int64
		tr := &Transport{
			Base: &wire{reply: func(int, *http.Request) (*http.Response, error) {
				time.Sleep(300 * time.Millisecond)
				n := int(used.Add(1))
				return answer(200, "{}",
					"Anthropic-RateLimit-Tokens-Limit", fmt.Sprint(input), "Anthropic-RateLimit-Tokens-Remaining", fmt.Sprint(input-cost*n),
					"Anthropic-RateLimit-Output-Tokens-Limit", fmt.Sprint(output), "Anthropic-RateLimit-Output-Tokens-Remaining", fmt.Sprint(output-20*n)), nil
			}},
			Needs: func(*http.Request) []throttle.Need { return []throttle.Need{{Scope: "tokens", Cost: cost}} },
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 90 {
			all.Go(func() {
				a, err := tr.RoundTrip(to(t, "POST", "https://api.anthropic.com/v1/messages"))
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
			})
		}
		all.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("90 requests of 3000 tokens took %v where 400,000 may be used at once, want 20s at most", took)
		}
	})
}
