package bench

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

// A Transport over the RoundTripper of go-retryablehttp sees that it retries.
func TestRetryableHTTPIsSeen(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	below := retryablehttp.NewClient()
	below.RetryWaitMin, below.RetryWaitMax, below.Logger = time.Millisecond, time.Millisecond, nil
	defer below.HTTPClient.CloseIdleConnections()
	var warned []int
	client := http.Client{Transport: &throttlehttp.Transport{
		Base:      &retryablehttp.RoundTripper{Client: below},
		Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Control: pace.All(nil)} }},
		Warn:      func(_ *http.Request, sent int) { warned = append(warned, sent) },
	}}
	for range 2 {
		a, err := client.Post(server.URL, "text/plain", strings.NewReader("a"))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Errorf("status %d, want 200", a.StatusCode)
		}
	}
	if len(warned) != 1 || warned[0] != 3 || requests.Load() != 4 {
		t.Errorf("%d requests of 2 calls, warned of %v; want 4, [3]", requests.Load(), warned)
	}
}
