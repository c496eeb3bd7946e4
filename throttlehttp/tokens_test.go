package throttlehttp_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/throttlehttp"
)

// model is a Base whose server allows 500 requests and 200,000 tokens a minute, and tells of both as
// a vendor does.
type model struct {
	kind            limit.Kind
	tell            func(h http.Header, requests, tokens limit.Decision)
	store           memory.Store
	mu              sync.Mutex
	used            int64
	served, refused int
}

const tokensPerMinute = 200_000

var most = map[string]int{"Requests": 500, "Tokens": tokensPerMinute}

func (s *model) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	s.mu.Lock()
	d := make([]limit.Decision, 2)
	ok, err := s.store.Take(r.Context(), []limit.Ask{
		{Key: "requests", Limit: limit.Limit{Kind: s.kind, Count: 500, Period: time.Minute}, N: 1},
		{Key: "tokens", Limit: limit.Limit{Kind: s.kind, Count: tokensPerMinute, Period: time.Minute}, N: costOf(r)},
	}, d)
	a := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody, Request: r}
	s.tell(a.Header, d[0], d[1])
	if ok {
		s.served++
		s.used += costOf(r)
	} else {
		s.refused++
		a.StatusCode = http.StatusTooManyRequests
		a.Header.Set("Retry-After", up(max(d[0].RetryAfter, d[1].RetryAfter)))
	}
	s.mu.Unlock()
	if ok {
		time.Sleep(200 * time.Millisecond)
	}
	return a, err
}

func costOf(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.Header.Get("Tokens"), 10, 64)
	return n
}

func openAI(h http.Header, requests, tokens limit.Decision) {
	for name, d := range map[string]limit.Decision{"Requests": requests, "Tokens": tokens} {
		h.Set("X-Ratelimit-Limit-"+name, fmt.Sprint(most[name]))
		h.Set("X-Ratelimit-Remaining-"+name, fmt.Sprint(d.Remaining))
		h.Set("X-Ratelimit-Reset-"+name, d.ResetAfter.Round(time.Millisecond).String())
	}
}

// anthropic rounds what remains of the tokens to thousands, and times to seconds.
func anthropic(h http.Header, requests, tokens limit.Decision) {
	tokens.Remaining = int64(math.Round(float64(tokens.Remaining)/1000) * 1000)
	for name, d := range map[string]limit.Decision{"Requests": requests, "Tokens": tokens} {
		h.Set("Anthropic-Ratelimit-"+name+"-Limit", fmt.Sprint(most[name]))
		h.Set("Anthropic-Ratelimit-"+name+"-Remaining", fmt.Sprint(d.Remaining))
		h.Set("Anthropic-Ratelimit-"+name+"-Reset", time.Now().Add(d.ResetAfter+time.Second-1).Truncate(time.Second).UTC().Format(time.RFC3339))
	}
}

func drafts(h http.Header, requests, tokens limit.Decision) {
	h.Set("RateLimit", fmt.Sprintf(`"requests"; r=%d; t=%s, "tokens"; r=%d; t=%s`, requests.Remaining, up(requests.ResetAfter), tokens.Remaining, up(tokens.ResetAfter)))
	h.Set("RateLimit-Policy", fmt.Sprintf(`"requests"; q=500; w=60, "tokens"; q=%d; w=60; qu="tokens"`, tokensPerMinute))
}

// Calls of 100 to 50,000 tokens, each order of magnitude as often, without end: all of the tokens are
// used, and hardly a call is refused once the limit is known. Of fixed windows the rest is lost for
// which the next call is too dear.
func TestTokensPerMinute(t *testing.T) {
	for _, c := range []struct {
		name, url string
		kind      limit.Kind
		tell      func(http.Header, limit.Decision, limit.Decision)
		used      float64
		refused   int // in a hundred
	}{
		{"OpenAI", "https://api.openai.com/v1/chat/completions", limit.TokenBucket, openAI, 0.95, 1},
		{"Anthropic", "https://api.anthropic.com/v1/messages", limit.TokenBucket, anthropic, 0.95, 4},
		{"windows", "https://api.example.com/v1/messages", limit.FixedWindow, drafts, 0.85, 3},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &model{kind: c.kind, tell: c.tell}
			client := http.Client{Transport: &throttlehttp.Transport{Base: s, Throttles: quietly(), Needs: func(r *http.Request) []throttle.Need {
				return []throttle.Need{{Scope: "tokens", Cost: costOf(r)}}
			}}}
			stop := time.Now().Add(40 * time.Minute)
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					for luck := rand.New(rand.NewPCG(1, uint64(i))); time.Now().Before(stop); {
						r, _ := http.NewRequest("POST", c.url, strings.NewReader("{}"))
						r.Header.Set("Tokens", fmt.Sprint(int64(100*math.Exp(luck.Float64()*math.Log(500)))))
						a, err := client.Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, a.Body)
					}
				})
			}
			time.Sleep(10 * time.Minute)
			s.mu.Lock()
			used, served, refused := s.used, s.served, s.refused
			s.mu.Unlock()
			time.Sleep(30 * time.Minute)
			s.mu.Lock()
			used, served, refused = s.used-used, s.served-served, s.refused-refused
			s.mu.Unlock()
			all.Wait()
			part := float64(used) / (30 * tokensPerMinute)
			t.Logf("%s: %.3f of the tokens used, %d served, %d refused", c.name, part, served, refused)
			if part < c.used || refused*100 > served*c.refused {
				t.Errorf("%s: %.3f of the tokens used, %d served, %d refused; want %.2f at least, and %d in a hundred refused", c.name, part, served, refused, c.used, c.refused)
			}
		})
	}
}

// quietly makes Throttles without a bound on waits, which log nothing.
func quietly() *throttle.Group {
	return &throttle.Group{New: func(string) *throttle.Throttle {
		return &throttle.Throttle{MaxWait: -1, OnEvent: func(throttle.Event) {}}
	}}
}
