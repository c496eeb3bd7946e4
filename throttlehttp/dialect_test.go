package throttlehttp_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/throttlehttp"
)

// recorded is a server that answers with a recorded response of a vendor, a
// number of times, and then with 200. It notes when it was asked.
type recorded struct {
	t     *testing.T
	file  string
	times int
	asked []time.Time
}

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.asked = append(r.asked, time.Now()); len(r.asked) > r.times {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("done")), Request: req}, nil
	}
	text, err := os.ReadFile(filepath.Join("..", "signal", "testdata", r.file))
	if err != nil {
		r.t.Fatal(err)
	}
	text = text[bytes.Index(text, []byte("HTTP/")):] // what precedes is a remark
	a, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), req)
	if err != nil {
		r.t.Fatal(err)
	}
	a.Header.Del("Date") // of the day of the recording
	return a, nil
}

func TestTransportUnderstandsVendors(t *testing.T) {
	for _, c := range []struct {
		file, url string
		bodies    bool
		asked     int // of a server that says it twice, and then serves
		least     time.Duration
		status    int
	}{
		{"github-secondary.txt", "https://api.github.com/search/code?q=x", true, 3, 2 * time.Minute, 200},
		{"github-secondary.txt", "https://api.github.com/search/code?q=x", false, 3, 2 * time.Minute, 200},
		{"github-graphql.txt", "https://api.github.com/graphql", false, 3, time.Minute, 200},
		{"github-graphql-last.txt", "https://api.github.com/graphql", false, 1, 0, 200},
		{"github-forbidden-last.txt", "https://api.github.com/repos/a/b", false, 1, 0, 403},
		{"google-workspace-rate.txt", "https://gmail.googleapis.com/gmail/v1/users/me/messages", false, 3, 0, 200},
		{"google-workspace-daily.txt", "https://gmail.googleapis.com/gmail/v1/users/me/messages", false, 1, 0, 403},
		{"docker-refused.txt", "https://registry-1.docker.io/v2/library/alpine/manifests/latest", false, 3, 30 * time.Minute, 200},
		{"linear-refused.txt", "https://api.linear.app/graphql", false, 3, 0, 200},
		{"linear-bad.txt", "https://api.linear.app/graphql", false, 1, 0, 400},
		{"plaid-400.txt", "https://any.example/", false, 3, 0, 200},
		{"ordinary-400.txt", "https://any.example/", false, 1, 0, 400},
		{"openai-quota.txt", "https://api.openai.com/v1/models", true, 1, 0, 429},
		{"shopify-graphql-throttled.txt", "https://shop.myshopify.com/admin/api/graphql.json", true, 3, 0, 200},
		{"shopify-graphql-throttled.txt", "https://shop.myshopify.com/admin/api/graphql.json", false, 3, 0, 200},
		{"shopify-graphql-throttled.txt", "https://shop.myshopify.com/admin/api/orders.json", false, 1, 0, 200},
		{"aws-unavailable.txt", "https://dynamodb.eu-west-1.amazonaws.com/", false, 3, 0, 200},
		{"aws-dynamodb.txt", "https://dynamodb.eu-west-1.amazonaws.com/", true, 3, 0, 200},
		{"openai-retry-after-ms.txt", "https://api.openai.com/v1/models", false, 3, 0, 200},
	} {
		bubble.Test(t, func(t *testing.T) {
			server := &recorded{t: t, file: c.file, times: 2}
			client := http.Client{Transport: &throttlehttp.Transport{Base: server, Bodies: c.bodies}}
			began := time.Now()
			resp, err := client.Get(c.url)
			if err != nil {
				t.Fatalf("%s: %v", c.file, err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) == 0 {
				t.Errorf("%s: the body is %q, %v; want all of it", c.file, body, err)
			}
			took := server.asked[len(server.asked)-1].Sub(began)
			if len(server.asked) != c.asked || resp.StatusCode != c.status || took < c.least {
				t.Errorf("%s, bodies %t: %d after %d requests and %v, want %d after %d and at least %v",
					c.file, c.bodies, resp.StatusCode, len(server.asked), took, c.status, c.asked, c.least)
			}
		})
	}
}

// TestStatusErrorSaysWhy: the error of a caller that gives up says what the server meant.
func TestStatusErrorSaysWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := &recorded{t: t, file: "github-secondary.txt", times: 1000}
		tr := &throttlehttp.Transport{Base: server, Bodies: true}
		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 30 * time.Second})
		req, err := http.NewRequestWithContext(ctx, "GET", "https://api.github.com/search/code?q=x", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.RoundTrip(req)
		var status *throttlehttp.StatusError
		if !errors.As(err, &status) || status.Reading.Scope == signal.ScopeUnknown || status.Reading.By == "" ||
			!strings.Contains(err.Error(), "secondary rate limit") {
			t.Errorf("gave up with %v (%+v), want the reason, its scope and what decided", err, status)
		}
	})
}

// TestTransportHeedsShouldRetry: the server's own word on whether to ask again
// comes before the status, but no request is executed twice that must not be.
func TestTransportHeedsShouldRetry(t *testing.T) {
	for _, c := range []struct {
		url, method, key string
		status           int
		field, value     string
		asked            int // of a server that says it twice, and then serves
	}{
		{"https://api.stripe.com/v1/charges", "POST", "k", 409, "Stripe-Should-Retry", "true", 3},
		{"https://api.stripe.com/v1/charges", "POST", "", 409, "Stripe-Should-Retry", "true", 1},
		{"https://api.stripe.com/v1/charges", "GET", "", 500, "Stripe-Should-Retry", "true", 3},
		{"https://api.stripe.com/v1/charges", "GET", "", 409, "", "", 1},
		{"https://api.stripe.com/v1/charges", "GET", "", 429, "Stripe-Should-Retry", "false", 1},
		{"https://any.example/", "GET", "", 503, "X-Should-Retry", "false", 1},
		{"https://any.example/", "GET", "", 502, "X-Should-Retry", "false", 1},
		{"https://any.example/", "GET", "", 400, "X-Should-Retry", "true", 3},
		{"https://any.example/", "GET", "", 200, "X-Should-Retry", "true", 1},
		{"https://any.example/", "GET", "", 400, "X-Should-Retry", "maybe", 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			asked := 0
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				a := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}
				if asked++; asked < 3 {
					a.StatusCode = c.status
					a.Header.Set(c.field, c.value)
				}
				return a, nil
			})
			req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			if _, err = (&throttlehttp.Transport{Base: base}).RoundTrip(req); err != nil || asked != c.asked {
				t.Errorf("%s %d %s: %s: %d requests, %v; want %d", c.method, c.status, c.field, c.value, asked, err, c.asked)
			}
		})
	}
}

// roundTripper makes a function a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
