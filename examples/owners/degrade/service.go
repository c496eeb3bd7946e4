package main

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/examples/owners/internal/scene"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// policy lets each internal service have 20 full answers a second, and one that
// runs once a day very few.
const policy = `{"rules": [{
	"name": "full-answers", "key": "client", "limits": "20/s",
	"overrides": {"key": "nightly", "limits": "1/h"}
}]}`

var customers = scene.Keys{"k1": "reports", "k2": "shop", "k3": "nightly"}

// prices answers in full, which is dear, or by the last full answer, which is
// cheap and may be old.
type prices struct {
	mu       sync.Mutex
	computed map[string]int   // how often, for each customer
	last     map[string]price // by path
}

type price struct {
	cents int
	at    time.Time
}

func service(p *prices) (http.Handler, error) {
	compiled, err := rules.Parse([]byte(policy))
	if err != nil {
		return nil, err
	}
	live := new(rules.Live)
	live.Swap(compiled)
	return &throttlehttp.Handler{
		Control:  &admit.Control{Rules: live},
		Request:  customers.Request,
		Next:     http.HandlerFunc(p.full),
		Degraded: http.HandlerFunc(p.degraded),
	}, nil
}

func (p *prices) full(w http.ResponseWriter, r *http.Request) {
	<-time.After(5 * time.Millisecond) // much work
	now := time.Now()
	p.mu.Lock()
	p.computed[customers.Customer(r)]++
	p.last[r.URL.Path] = price{len(r.URL.Path), now}
	p.mu.Unlock()
	fmt.Fprintln(w, len(r.URL.Path))
}

// degraded says with Age (RFC 9111) that it is not fresh. Who asks for what
// there is no answer of is refused after all.
func (p *prices) degraded(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	last, ok := p.last[r.URL.Path]
	p.mu.Unlock()
	if !ok {
		why, _ := throttlehttp.Why(r)
		w.Header().Set("Retry-After", fmt.Sprint(math.Ceil(why.RetryAfterWhole.Seconds())))
		http.Error(w, "too many requests, and no older answer", http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Age", strconv.Itoa(int(time.Since(last.at).Seconds())))
	fmt.Fprintln(w, last.cents)
}
