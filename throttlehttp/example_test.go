package throttlehttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// api refuses every second request.
func api() *httptest.Server {
	requests := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests%2 == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		io.Copy(w, r.Body)
	}))
}

func ExampleTransport() {
	server := api()
	defer server.Close()

	client := http.Client{Transport: new(throttlehttp.Transport)}
	answer, err := client.Post(server.URL, "text/plain", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, string(text), err)
	// Output: 200 OK hello <nil>
}

// A Throttle for each host, with a pace, a bound on tries and a hook.
func ExampleTransport_new() {
	server := api()
	defer server.Close()

	client := http.Client{Transport: &throttlehttp.Transport{
		Throttles: &throttle.Group{New: func(host string) *throttle.Throttle {
			return &throttle.Throttle{
				Control: new(pace.Adaptive),
				Tries:   5,
				OnEvent: func(e throttle.Event) {
					if e.Kind == throttle.Ends {
						fmt.Println("try", e.Try, e.Report.Verdict)
					}
				},
			}
		}},
	}}
	answer, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer.Body.Close()
	fmt.Println(answer.Status)
	// Output:
	// try 1 throttled
	// try 2 served
	// 200 OK
}

func ExampleHandler() {
	h := &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 2, Period: time.Hour}, Name: "hourly"},
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, "hello")
		}),
	}
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t=")
		fmt.Println(w.Code, left)
	}
	// Output:
	// 200 "hourly";r=1
	// 200 "hourly";r=0
	// 429 "hourly";r=0
}

// Three requests at once, and then one a minute, for each address.
func ExampleLimit() {
	perAddress := throttlehttp.Limit(limit.Limit{Count: 60, Period: time.Hour, Burst: 3}, nil)
	h := perAddress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }))

	for range 4 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		left, _, _ := strings.Cut(w.Header().Get("RateLimit"), ";t=")
		fmt.Println(w.Code, left)
	}
	// Output:
	// 200 "default";r=2
	// 200 "default";r=1
	// 200 "default";r=0
	// 429 "default";r=0
}

// An LLM states its limits in requests and in tokens. Each request is charged the tokens that
// it is estimated to take: after one that takes many the next waits for long.
func ExampleTransport_needs() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"requests";r=100;t=60, "tokens";r=500;t=60`)
		w.Header().Set("RateLimit-Policy", `"requests";q=500;w=60, "tokens";q=10000;w=60;qu="tokens"`)
	}))
	defer model.Close()

	client := http.Client{Transport: &throttlehttp.Transport{
		MaxWait: time.Second,
		Needs: func(r *http.Request) []throttle.Need {
			return []throttle.Need{{Scope: "tokens", Cost: r.ContentLength / 4}} // four letters a token
		},
	}}
	for _, letters := range []int{40_000, 400} {
		answer, err := client.Post(model.URL, "text/plain", strings.NewReader(strings.Repeat("x", letters)))
		if err == nil {
			answer.Body.Close()
			fmt.Println(answer.Status)
		}
		var e *throttle.Error
		if errors.As(err, &e) {
			fmt.Println(e.Reason, "for", e.Scope)
		}
	}
	// Output:
	// 200 OK
	// context deadline exceeded for tokens
}
