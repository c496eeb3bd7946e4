package throttlehttp

import (
	"fmt"
	"net/http"
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
