package signal_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/throttle-go/throttle/signal"
)

// GitHub's secondary limits look like its primary ones but for the body.
func ExampleFor() {
	h := http.Header{}
	h.Set("X-RateLimit-Remaining", "4987")
	body := []byte(`{"message": "You have exceeded a secondary rate limit."}`)

	d := signal.For("api.github.com")
	if !d.WantsBody(403) {
		body = nil
	}
	r := d.Read(403, h.Get, body, time.Now())
	fmt.Println(r.Verdict, r.After.V, r.By)
	fmt.Println(r.Reason)
	// Output:
	// throttled 1m0s default
	// You have exceeded a secondary rate limit.
}

// A gateway of one's own has no host that a preset could list.
func ExampleNamed() {
	h := http.Header{}
	h.Set("X-RateLimit-Limit-Minute", "10")
	h.Set("X-RateLimit-Remaining-Minute", "3")
	h.Set("X-RateLimit-Limit-Hour", "100")
	h.Set("X-RateLimit-Remaining-Hour", "90")

	d, _ := signal.Named("kong")
	for _, p := range d.Read(200, h.Get, nil, time.Now()).Policies {
		fmt.Println(p.Name, p.Remaining.V, "of", p.Limit.V, "in", p.Window.V)
	}
	// Output:
	// minute 3 of 10 in 1m0s
	// hour 90 of 100 in 1h0m0s
}

// What was made of each field, and why not.
func ExampleDialect_Explain() {
	h := http.Header{}
	h.Set("Retry-After", "soon")
	h.Set("X-RateLimit-Reset", "30")
	_, notes := signal.For("api.example").Explain(429, h.Get, nil, time.Now())
	for _, n := range notes {
		fmt.Printf("%s: %s: %s\n", strings.ToLower(n.Field), n.Value, n.Says)
	}
	// Output:
	// retry-after: soon: neither a number nor a date nor a duration
	// x-ratelimit-reset: 30: reset 30s (guessed: seconds from now)
}
