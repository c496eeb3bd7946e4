package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// A call that says how many tokens it costs waits until so many are left, and is not refused. One
// that does not say so is refused, and holds up the others.
func TestTokensOfACall(t *testing.T) {
	for _, says := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			const size = 60_000.0 // a minute
			left, at, refused := 1500.0, time.Now(), 0
			cost := 0.0
			p := proxyOf(t, map[string]string{"api": "https://api.openai.com"})
			p.apis[0].plain.Base = answers(func(r *http.Request) *http.Response {
				time.Sleep(50 * time.Millisecond)
				left, at = min(left+size*time.Since(at).Minutes(), size), time.Now()
				a := &http.Response{StatusCode: 200, Header: http.Header{}}
				if cost > left {
					refused++
					a.StatusCode = 429
				} else {
					left -= cost
				}
				for name, value := range map[string]any{
					"Limit-Requests": 500, "Remaining-Requests": 499, "Reset-Requests": "120ms", "Limit-Tokens": int(size), "Remaining-Tokens": int(left),
					"Reset-Tokens": time.Duration((size - left) / size * float64(time.Minute)).Round(time.Millisecond),
				} {
					a.Header.Set("X-Ratelimit-"+name, fmt.Sprint(value))
				}
				return a
			})
			began := time.Now()
			for _, cost = range []float64{100, 200, 30_000} {
				var fields []string
				if says {
					fields = []string{tokensField, fmt.Sprint(cost)}
				}
				if e := together(t, p, 1, fields...)[0]; e.status != 200 {
					t.Fatalf("says its cost: %v: answered %d", says, e.status)
				}
			}
			took := time.Since(began)
			if took < 28*time.Second || says && (refused > 0 || took > 35*time.Second) || !says && refused == 0 {
				t.Errorf("says its cost: %v: a call of 30,000 tokens of which 1,200 are left ends after %v, refused %d times", says, took, refused)
			}
		})
	}
}

// answers answers without a network.
type answers func(*http.Request) *http.Response

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a := f(r)
	a.Proto, a.ProtoMajor, a.ProtoMinor, a.Request, a.Body = "HTTP/1.1", 1, 1, r, io.NopCloser(strings.NewReader(""))
	return a, nil
}
