package throttlehttp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// wire is a Base that answers from memory: try n by reply(n).
type wire struct {
	reply func(n int, r *http.Request) (*http.Response, error)

	mu   sync.Mutex
	seen []try
	open []*body // all bodies of answers
}

type try struct {
	at   time.Time
	body string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	w.mu.Lock()
	n := len(w.seen)
	w.seen = append(w.seen, try{time.Now(), string(sent)})
	w.mu.Unlock()
	a, err := w.reply(n, r)
	if a != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		b := &body{Reader: a.Body}
		a.Body, a.Request = b, r
		w.open = append(w.open, b)
	}
	return a, err
}

// body counts what is done to it.
type body struct {
	io.Reader
	read   int
	closed int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *body) Close() error { b.closed++; return nil }

// answer makes an answer of a status, a body and pairs of name and value.
func answer(status int, text string, pairs ...string) *http.Response {
	a := &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(text))}
	for i := 0; i < len(pairs); i += 2 {
		a.Header.Add(pairs[i], pairs[i+1])
	}
	return a
}

// replies answers by these, the last of them for ever.
func replies(all ...func() (*http.Response, error)) *wire {
	return &wire{reply: func(n int, _ *http.Request) (*http.Response, error) { return all[min(n, len(all)-1)]() }}
}

func says(status int, pairs ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return answer(status, fmt.Sprintf("body of %d", status), pairs...), nil
	}
}

var errCut = errors.New("connection reset")

func cut() (*http.Response, error) { return nil, errCut }

// unpaced is a Throttle that lets everything go at once.
func unpaced(string) *throttle.Throttle { return &throttle.Throttle{Control: pace.All(nil)} }

func request(t *testing.T, method, text string) *http.Request {
	t.Helper()
	var b io.Reader
	if text != "" {
		b = strings.NewReader(text)
	}
	r, err := http.NewRequest(method, "http://api.test/x", b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRetryAfterIsHonoured(t *testing.T) {
	// A bubble begins at 2000-01-01 00:00:00 UTC.
	tests := []struct {
		status int
		pairs  []string
		want   time.Duration
	}{
		{429, nil, 0},
		{429, []string{"Retry-After", "7"}, 7 * time.Second},
		{429, []string{"Retry-After", "0.25"}, 250 * time.Millisecond},
		{503, []string{"Retry-After", "7"}, 7 * time.Second},
		{502, []string{"Retry-After", "7"}, 7 * time.Second},
		{429, []string{"Retry-After", "Sat, 01 Jan 2000 00:01:30 GMT"}, 90 * time.Second},
		{429, []string{"Retry-After", "Saturday, 01-Jan-00 00:01:30 GMT"}, 90 * time.Second},
		{429, []string{"Retry-After", "Sat Jan  1 00:01:30 2000"}, 90 * time.Second},
		{429, []string{"Retry-After", "Sat, 01 Jan 2000 05:01:30 GMT", "Date", "Sat, 01 Jan 2000 05:01:00 GMT"}, 30 * time.Second},
		{429, []string{"RateLimit", `"default";r=0;t=12`}, 12 * time.Second},
		{429, []string{"RateLimit", `"a";r=0;t=12`, "RateLimit", `"b";r=0;t=13`}, 13 * time.Second},
		{429, []string{"Retry-After", "7", "RateLimit", `"default";r=0;t=12`}, 7 * time.Second},
		{429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684860"}, time.Minute},
		{429, []string{"Retry-After", "1000000"}, time.Hour},
	}
	for _, tt := range tests {
		bubble.Test(t, func(t *testing.T) {
			w := replies(says(tt.status, tt.pairs...), says(200))
			r := request(t, "GET", "")
			r = r.WithContext(throttle.WithOptions(r.Context(), throttle.CallOptions{MaxWait: -1}))
			a, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(r)
			if err != nil || a.StatusCode != 200 || len(w.seen) != 2 {
				t.Fatalf("after %d %q: %v, %v, %d tries; want 200 after 2", tt.status, tt.pairs, a, err, len(w.seen))
			}
			if got := w.seen[1].at.Sub(w.seen[0].at); got != tt.want {
				t.Errorf("after %d %q: retried after %v; want %v", tt.status, tt.pairs, got, tt.want)
			}
		})
		bubble.Test(t, func(t *testing.T) {
			w := replies(says(tt.status, tt.pairs...), says(200))
			if _, err := (&Transport{Base: w, MaxWait: -1}).RoundTrip(request(t, "GET", "")); err != nil {
				t.Fatal(err)
			}
			if got := w.seen[1].at.Sub(w.seen[0].at); got < tt.want {
				t.Errorf("after %d %q: the zero Transport retried after %v; want no earlier than %v", tt.status, tt.pairs, got, tt.want)
			}
		})
	}
}

const stream = "stream" // a body that cannot be rewound
type sequence = []func() (*http.Response, error)

var slow = says(429, "Retry-After", "1")

var retryTests = []struct {
	name   string
	method string
	body   string
	key    bool // has an Idempotency-Key
	repeat bool // Repeat says yes
	server sequence
	tries  int
	status int // 0: an error
}{
	{"served", "GET", "", false, false, sequence{says(200)}, 1, 200},
	{"not found", "GET", "", false, false, sequence{says(404)}, 1, 404},
	{"server's fault", "GET", "", false, false, sequence{says(500, "Retry-After", "5")}, 1, 500},
	{"not implemented", "GET", "", false, false, sequence{says(501)}, 1, 501},

	{"GET 429", "GET", "", false, false, sequence{slow, slow, slow, slow, slow, slow, says(200)}, 7, 200},
	{"HEAD 429", "HEAD", "", false, false, sequence{slow, says(200)}, 2, 200},
	{"POST 429", "POST", "text", false, false, sequence{slow, says(201)}, 2, 201},
	{"PATCH 429", "PATCH", "text", false, false, sequence{slow, says(200)}, 2, 200},
	{"POST 429, no body", "POST", "", false, false, sequence{slow, says(200)}, 2, 200},
	{"POST 429, stream", "POST", stream, false, false, sequence{slow}, 1, 429},
	{"PUT 429, stream", "PUT", stream, false, false, sequence{slow}, 1, 429},
	{"PUT 429, stream, may be repeated", "PUT", stream, true, true, sequence{slow}, 1, 429},

	{"GET 503", "GET", "", false, false, sequence{says(503), says(503), says(200)}, 3, 200},
	{"POST 503", "POST", "text", false, false, sequence{says(503)}, 1, 503},
	{"POST 503 with Retry-After", "POST", "text", false, false, sequence{says(503, "Retry-After", "1"), says(200)}, 2, 200},
	{"POST 503 with Retry-After, stream", "POST", stream, false, false, sequence{says(503, "Retry-After", "1")}, 1, 503},
	{"POST 503 with a reset", "POST", "text", false, false, sequence{says(503, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5")}, 1, 503},
	{"POST 503 with key", "POST", "text", true, false, sequence{says(503), says(200)}, 2, 200},
	{"POST 503 with Repeat", "POST", "text", false, true, sequence{says(503), says(200)}, 2, 200},

	{"GET 502", "GET", "", false, false, sequence{says(502), says(504), says(200)}, 3, 200},
	{"GET 502 for ever", "GET", "", false, false, sequence{says(502)}, 4, 502},
	{"POST 502", "POST", "text", false, false, sequence{says(502)}, 1, 502},
	{"POST 502 with Retry-After", "POST", "text", false, false, sequence{says(502, "Retry-After", "1")}, 1, 502},
	{"POST 504 with key", "POST", "text", true, false, sequence{says(504), says(200)}, 2, 200},
	{"PUT 502, stream", "PUT", stream, false, false, sequence{says(502)}, 1, 502},

	{"GET cut", "GET", "", false, false, sequence{cut, cut, says(200)}, 3, 200},
	{"GET cut for ever", "GET", "", false, false, sequence{cut}, 4, 0},
	{"DELETE cut", "DELETE", "", false, false, sequence{cut, says(200)}, 2, 200},
	{"POST cut", "POST", "text", false, false, sequence{cut}, 1, 0},
	{"POST cut with Repeat", "POST", "text", false, true, sequence{cut, says(200)}, 2, 200},
	{"PUT cut, stream", "PUT", stream, false, false, sequence{cut}, 1, 0},
	{"a mixture", "GET", "", false, false, sequence{slow, cut, says(503), says(502), says(200)}, 5, 200},
}

func TestWhatIsRetried(t *testing.T) {
	for _, tt := range retryTests {
		bubble.Test(t, func(t *testing.T) {
			w := replies(tt.server...)
			tr := &Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}
			if tt.repeat {
				tr.Repeat = func(*http.Request) bool { return true }
			}
			req := request(t, tt.method, tt.body)
			if tt.body == stream {
				req.GetBody = nil
			}
			if tt.key {
				req.Header.Set("Idempotency-Key", "1")
			}
			a, err := tr.RoundTrip(req)
			status := 0
			if err == nil {
				status = a.StatusCode
				text, _ := io.ReadAll(a.Body)
				if want := fmt.Sprintf("body of %d", status); string(text) != want {
					t.Errorf("%s: body %q; want %q", tt.name, text, want)
				}
				a.Body.Close()
			} else if !errors.Is(err, errCut) {
				t.Errorf("%s: error %v; want it to be %v", tt.name, err, errCut)
			}
			if status != tt.status || len(w.seen) != tt.tries {
				t.Errorf("%s: status %d, error %v, %d tries; want %d after %d", tt.name, status, err, len(w.seen), tt.status, tt.tries)
			}
			for i, s := range w.seen {
				if s.body != tt.body {
					t.Errorf("%s: try %d sent %q; want %q", tt.name, i, s.body, tt.body)
				}
			}
			for i, b := range w.open {
				if b.closed != 1 {
					t.Errorf("%s: body of answer %d closed %d times; want once", tt.name, i, b.closed)
				}
			}
		})
	}
}

// pupil is a Controller that paces nothing and remembers what it was taught.
type pupil struct {
	flying int
	taught []pace.Outcome
}

func (p *pupil) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (p *pupil) Start(time.Time, pace.Request)              { p.flying++ }
func (p *pupil) Observe(_ time.Time, o pace.Outcome) time.Duration {
	p.flying--
	p.taught = append(p.taught, o)
	return 0
}

// What must not be retried teaches all the same.
func TestWhatIsTaught(t *testing.T) {
	hints := []string{"RateLimit", `"a";r=5;t=9`, "RateLimit-Policy", `"a";q=60;w=60`}
	tests := []struct {
		method string
		reply  func() (*http.Response, error)
		want   pace.Verdict
		after  time.Duration
	}{
		{"GET", says(200, hints...), pace.Served, 0},
		{"GET", says(404, hints...), pace.Served, 0},
		{"GET", says(500, hints...), pace.Ignored, 0},
		{"GET", says(521, hints...), pace.Ignored, 0},
		{"POST", says(503, hints...), pace.Throttled, 0},
		{"POST", says(502, hints...), pace.Failed, 0},
		{"POST", says(502, append(hints, "Retry-After", "4")...), pace.Failed, 4 * time.Second},
		{"POST", cut, pace.Failed, 0},
		{"GET", func() (*http.Response, error) { return nil, &tls.CertificateVerificationError{Err: errCut} }, pace.Ignored, 0},
	}
	for _, tt := range tests {
		bubble.Test(t, func(t *testing.T) {
			p := new(pupil)
			w := replies(tt.reply)
			tr := &Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Control: p} }}}
			a, err := tr.RoundTrip(request(t, tt.method, ""))
			if len(w.seen) != 1 || p.flying != 0 || len(p.taught) == 0 {
				t.Fatalf("%s: %d tries, %d in flight, %d outcomes; want 1, 0, 1", tt.method, len(w.seen), p.flying, len(p.taught))
			}
			o := p.taught[0]
			if o.Verdict != tt.want || o.After != tt.after {
				t.Errorf("%s: taught %v after %v; want %v after %v", tt.method, o.Verdict, o.After, tt.want, tt.after)
			}
			if err == nil && (o.Hints.Remaining.V != 5 || o.Hints.Limit.V != 60) {
				t.Errorf("%s %d: hints %+v; want 5 of 60 remaining", tt.method, a.StatusCode, o.Hints)
			}
			for _, more := range p.taught[1:] { // starts that were given back
				if more.Verdict != pace.Ignored || !more.Sent.IsZero() {
					t.Errorf("%s: taught %+v besides", tt.method, more)
				}
			}
		})
	}
}

func TestOriginalIsUntouched(t *testing.T) {
	w := &wire{reply: func(n int, r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", "try "+fmt.Sprint(n))
		r.URL.Path, r.Method = "/other", "BREW"
		return answer([]int{429, 503, 200}[n], ""), nil
	}}
	req := request(t, "PUT", "text")
	req.Header.Set("Accept", "a")
	body, header, where := req.Body, maps.Clone(req.Header), *req.URL
	if _, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	if req.Method != "PUT" || *req.URL != where || req.Body != body || !maps.EqualFunc(req.Header, header, slices.Equal) {
		t.Errorf("after RoundTrip the request is %s %s %v; want PUT %s %v and the same Body", req.Method, req.URL, req.Header, &where, header)
	}
}

// A long answer that is discarded is read to the bound, and closed; one that
// is returned is whole.
func TestLongAnswers(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for _, status := range []int{429, 503} {
		w := &wire{reply: func(int, *http.Request) (*http.Response, error) { return answer(status, long), nil }}
		tr := &Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: pace.All(nil), Tries: 3}
		}}}
		a, err := tr.RoundTrip(request(t, "GET", ""))
		if err != nil || len(w.open) != 3 {
			t.Fatalf("%d: %v after %d tries; want the answer after 3", status, err, len(w.open))
		}
		for i, b := range w.open[:2] {
			if most := maxHeld + 1 + maxDrained; b.read > most || b.read < maxDrained || b.closed != 1 {
				t.Errorf("%d: answer %d: read %d bytes, closed %d times; want %d to %d, once", status, i, b.read, b.closed, maxDrained, most)
			}
		}
		last := w.open[2]
		if last.closed != 0 || last.read > maxHeld+1 {
			t.Errorf("%d: the answer returned is read to %d and closed %d times; want at most %d, never", status, last.read, last.closed, maxHeld+1)
		}
		text, err := io.ReadAll(a.Body)
		if a.Body.Close(); err != nil || string(text) != long || last.closed != 1 {
			t.Errorf("%d: the answer returned has %d bytes, %v, closed %d times; want all %d, once", status, len(text), err, last.closed, len(long))
		}
	}
}

// An answer that breaks off is as broken when it is returned.
func TestBrokenAnswer(t *testing.T) {
	w := &wire{reply: func(int, *http.Request) (*http.Response, error) {
		a := answer(429, "")
		a.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{errCut}))
		return a, nil
	}}
	tr := &Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Control: pace.All(nil), Tries: 2} }}}
	a, err := tr.RoundTrip(request(t, "GET", ""))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if string(text) != "half" || err != errCut || len(w.open) != 2 || w.open[0].closed != 1 || w.open[1].closed != 1 {
		t.Errorf("read %q, %v of the second of %d answers; want half of it, %v, and both closed", text, err, len(w.open), errCut)
	}
}

type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	base := new(closer)
	client := http.Client{Transport: &Transport{Base: base}}
	if client.CloseIdleConnections(); base.closed != 1 {
		t.Errorf("CloseIdleConnections of Base called %d times; want once", base.closed)
	}
	(&Transport{Base: new(wire)}).CloseIdleConnections() // knows nothing of it
}

func TestStatusError(t *testing.T) {
	e := &StatusError{Code: 429, Body: bytes.Repeat([]byte("\n"), 1000)}
	if got := e.Error(); strings.Contains(got, "\n") || len(got) > 500 || !strings.HasPrefix(got, "throttlehttp: 429 Too Many Requests: ") {
		t.Errorf("Error() = %q; want one short line that names the status", got)
	}
}
