package tasks

import (
	"net/http"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// LimitOnRedis allows each address 100 requests a minute at all instances
// together. Without Redis each instance allows its share.
func LimitOnRedis(redis store.Store, instances int, api http.Handler) http.Handler {
	return &throttlehttp.Handler{Next: api, Control: &admit.Control{
		Store: &store.Guard{Store: redis, Instances: instances},
		Limit: limit.Limit{Count: 100, Period: time.Minute},
	}}
}
