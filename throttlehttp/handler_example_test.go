package throttlehttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// get sends one request to h, as some user and to some path.
func get(h http.Handler, path, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Authorization", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Rules from text, here fixed; a rules.Source keeps them fresh.
func ExampleHandler_rules() {
	c, err := rules.Parse([]byte(`{"rules": [
		{"name": "reports", "match": {"paths": "/reports/*"}, "key": "address", "limits": "2/h"},
		{"name": "all", "limits": ["100/s", "10000/h"]}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	live := new(rules.Live)
	live.Swap(c)
	h := &throttlehttp.Handler{Control: &admit.Control{Rules: live}}

	for range 3 {
		w := get(h, "/reports/7", "")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 204 "reports";q=2;w=3600, "all";q=100;w=1, "all/1";q=10000;w=3600
	// 204 "reports";q=2;w=3600, "all";q=100;w=1, "all/1";q=10000;w=3600
	// 429 "reports";q=2;w=3600, "all";q=100;w=1, "all/1";q=10000;w=3600
}

// One Handler in front of the authentication limits the unknown by address, one
// behind it the known by what they are, and gives back what the first took.
func ExampleHandler_beforeAndAfter() {
	type user struct{}
	store := new(memory.Store)
	after := &throttlehttp.Handler{
		Control: &admit.Control{Store: store, Phase: rules.After, Name: "user", Limit: limit.Limit{Count: 1000, Period: time.Hour}},
		Request: func(r *http.Request, q admit.Request) admit.Request {
			q.Client, _ = r.Context().Value(user{}).(string)
			return q
		},
	}
	authentication := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "alice" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		after.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), user{}, "alice")))
	})
	before := &throttlehttp.Handler{
		Control: &admit.Control{Store: store, Phase: rules.Before, Name: "address", Limit: limit.Limit{Count: 2, Period: time.Hour}},
		Next:    authentication,
	}

	for range 10 {
		get(before, "/", "alice")
	}
	fmt.Println("alice, for the 11th time:", get(before, "/", "alice").Code)
	for range 3 {
		fmt.Println("a guess:", get(before, "/", "guess").Code)
	}
	// Output:
	// alice, for the 11th time: 204
	// a guess: 401
	// a guess: 401
	// a guess: 429
}

// A caller that calls too often gets a cached answer.
func ExampleHandler_degraded() {
	h := &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}},
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "fresh, from the database")
		}),
		Degraded: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e, _ := throttlehttp.Why(r)
			fmt.Fprintf(w, "an hour old, as you are %s the limit", e.Reason())
		}),
	}
	for range 2 {
		w := get(h, "/", "")
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 fresh, from the database
	// 200 an hour old, as you are over the limit
}

// At most so much at a time; what is critical goes first, and the rest waits for a
// moment, or is refused by 503.
func ExampleHandler_shed() {
	h := &throttlehttp.Handler{
		Control: &admit.Control{Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: -1}},
		Request: func(r *http.Request, q admit.Request) admit.Request {
			q.Priority = load.Low
			if r.URL.Path == "/pay" {
				q.Priority = load.Critical
			}
			return q
		},
	}
	h.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pay" {
			fmt.Println("meanwhile:", get(h, "/search", "").Code)
		}
	})
	fmt.Println("pay:", get(h, "/pay", "").Code)
	// Output:
	// meanwhile: 503
	// pay: 200
}

// What is refused is logged, at most ten records a second for each rule, and
// counted.
func ExampleHandler_log() {
	logs := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	counts, log := new(admit.Counter), admit.Log(logs, 10)
	h := &throttlehttp.Handler{
		Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}, Name: "hourly", OnEvent: func(e admit.Event) { counts.OnEvent(e); log(e) }},
	}
	get(h, "/", "")
	get(h, "/", "")
	fmt.Println(counts.Stats()[admit.Counted{Rule: "hourly", Reason: "over"}])
	// Output:
	// level=WARN msg=refused rule=hourly reason=over key=503898b6f5f93ac4 verdict=limited degraded=false
	// 1
}
