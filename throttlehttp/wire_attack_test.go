package throttlehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/throttlehttp"
)

// foe is a server that does with each request what chance tells it. Requests are
// known by their body. Those that it did not refuse it has executed.
type foe struct {
	mu     sync.Mutex
	chance *rand.Rand
	ran    map[string]int
	did    map[int]int // how often which thing was done
	conns  []net.Conn
}

func newFoe(seed uint64) *foe {
	return &foe{chance: rand.New(rand.NewPCG(seed, 1)), ran: map[string]int{}, did: map[int]int{}}
}

func (f *foe) next(things int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.chance.IntN(things)
	f.did[n]++
	return n
}

func (f *foe) run(body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ran[body]++
}

func (f *foe) times(body string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[body]
}

// dial connects to the server.
func (f *foe) dial(serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		f.mu.Lock()
		f.conns = append(f.conns, there)
		f.mu.Unlock()
		go serve(there)
		return here, nil
	}
}

func (f *foe) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

// http2 serves one connection.
func (f *foe) http2(c net.Conn) {
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		c.Close()
		return
	}
	s := newFramer(c)
	defer s.end()
	s.write(frameSetting, 0, 0)
	bodies := map[uint32]string{}
	for {
		kind, flags, stream, payload, err := s.read()
		if stream > s.last {
			continue // as it was said
		}
		switch {
		case err != nil:
			return
		case kind == frameSetting && flags&flagEnd == 0:
			s.write(frameSetting, flagEnd, 0)
		case kind == framePing && flags&flagEnd == 0:
			s.write(framePing, flagEnd, 0, payload...)
		case kind == frameData:
			bodies[stream] += string(payload)
		}
		if (kind == frameData || kind == frameHeaders) && flags&flagEnd != 0 {
			f.answer2(s, stream, bodies[stream])
		}
	}
}

const things2 = 17

// answer2 does one of the things that a server can do to a request.
func (f *foe) answer2(s *framer, stream uint32, body string) {
	thing := f.next(things2)
	refused := thing == 1 || thing == 2 || thing == 3 || thing == 4 || thing == 5
	if !refused {
		f.run(body)
	}
	head := func(flags byte, code string, fields ...[]byte) {
		b := status(code)
		for _, x := range fields {
			b = append(b, x...)
		}
		s.write(frameHeaders, flags|flagHeaders, stream, b...)
	}
	switch thing {
	case 1: // refused before it was looked at
		s.write(frameReset, 0, stream, word(codeRefused)...)
	case 2: // the connection ends, all before this stream was served
		s.goAway(stream-1, 0)
		s.hangUp()
	case 3:
		s.goAway(stream-1, codeCalm)
		s.hangUp()
	case 4:
		head(flagEnd, "429", literal("retry-after", "1"))
	case 5:
		head(flagEnd, "503", literal("retry-after", "2"))
	case 6: // executed, and no word of it
		s.write(frameReset, 0, stream, word(codeInternal)...)
	case 7:
		s.end()
	case 8: // cut off in the body
		head(0, "200")
		s.write(frameData, 0, stream, 'a', 'b')
		s.write(frameReset, 0, stream, word(codeCancel)...)
	case 9:
		head(0, "200")
		s.write(frameData, 0, stream, 'a', 'b')
		s.hangUp()
	case 10: // informational answers
		for range 3 {
			head(0, "103", literal("link", "</x>"))
		}
		head(flagEnd, "200")
	case 11: // trailers
		head(0, "200", literal("trailer", "x-sum"))
		s.write(frameData, 0, stream, 'a')
		s.write(frameHeaders, flagHeaders|flagEnd, stream, literal("x-sum", "1")...)
	case 12: // the connection takes no more, and this one is answered
		s.goAway(stream, 0)
		head(flagEnd, "200")
	case 13: // a body that never ends
		head(0, "200")
		s.write(frameData, 0, stream, 'a')
	case 14: // a flood of resets of a stream that is over
		head(flagEnd, "200")
		for range 500 {
			s.write(frameReset, 0, stream, word(codeCancel)...)
		}
	case 15:
		head(flagEnd, "502")
	case 16: // a status that there is not
		head(flagEnd, "99")
	default:
		head(0, "200")
		s.write(frameData, flagEnd, stream, 'o', 'k')
	}
}

const things1 = 15

// http1 serves one connection.
func (f *foe) http1(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		if f.next(10) == 0 {
			return // before or while the request is sent
		}
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		thing := f.next(things1)
		if thing > 2 {
			f.run(string(body))
		}
		if !f.answer1(c, thing) {
			return
		}
	}
}

// answer1 writes an answer, and reports whether the connection goes on.
func (f *foe) answer1(c net.Conn, thing int) bool {
	const ok = "HTTP/1.1 200 OK\r\n"
	text := [things1]string{
		0:  "HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nslow",
		1:  "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 4000\r\n\r\ncut",
		2:  "HTTP/1.1 429 Slow\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		3:  "", // executed, and no word of it
		4:  ok + "Content-Length: 10\r\n\r\nshort",
		5:  strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 3) + ok + "Content-Length: 2\r\n\r\nok",
		6:  "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok",
		7:  strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000), // more than net/http reads
		8:  ok + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
		9:  "HTTP/1.1 2x0 What\r\n\r\n",
		10: "HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n",
		11: ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", // and never more
		12: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		13: ok + "Content-Length: 2\r\n\r\nok" + ok + "Content-Length: 2\r\n\r\nno", // two for one
		14: ok + "Content-Length: 2\r\n\r\nok",
	}[thing]
	_, err := io.WriteString(c, text)
	switch thing {
	case 11:
		io.Copy(io.Discard, c) // until the client hangs up
		return false
	case 5, 6, 8, 10, 13, 14, 0:
		return err == nil
	}
	return false
}

// wireAttack sends requests through a Transport to a foe, many at a time.
func wireAttack(t *testing.T, seed uint64, http2 bool) {
	f := newFoe(seed)
	defer f.close()
	base := &http.Transport{DialContext: f.dial(f.http1), MaxIdleConnsPerHost: 4}
	if http2 {
		base.DialContext, base.Protocols = f.dial(f.http2), new(http.Protocols)
		base.Protocols.SetUnencryptedHTTP2(true)
	}
	defer base.CloseIdleConnections()
	var api throttle.Throttle
	tr := &throttlehttp.Transport{
		Base:      base,
		Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &api }},
		Warn: func(r *http.Request, sent int) {
			t.Errorf("%s: warned of a layer that sent %d times; there is none", r.Method, sent)
		},
	}
	chance := rand.New(rand.NewPCG(seed, 2))
	var all sync.WaitGroup
	for i := range 60 {
		method, read := "POST", chance.IntN(3)
		if chance.IntN(3) == 0 {
			method = "PUT"
		}
		all.Go(func() { wireSend(t, tr, f, method, fmt.Sprint("body ", i), read) })
		time.Sleep(time.Duration(chance.IntN(300)) * time.Millisecond)
	}
	all.Wait()
	if n, w := api.InFlight(), api.Waiting(); n != 0 || w != 0 {
		t.Errorf("%d in flight and %d waiting, want none", n, w)
	}
}

// wireSend sends one request, and reads all of its answer, a byte, or nothing.
func wireSend(t *testing.T, tr http.RoundTripper, f *foe, method, body string, read int) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://foe.example/", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	began := time.Now()
	a, err := tr.RoundTrip(req)
	if err == nil {
		switch read {
		case 0:
			io.Copy(io.Discard, a.Body)
		case 1:
			a.Body.Read(make([]byte, 1))
		}
		a.Body.Close()
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v, longer than its context", took)
	}
	ran, may := f.times(body), throttlehttp.MayHaveRun(a, err)
	switch {
	case ran > 0 && !may:
		t.Errorf("%s executed %d times, and said to be surely not: %v, %v", method, ran, a, err)
	case ran > 1 && method == "POST":
		t.Errorf("POST executed %d times: %v, %v", ran, a, err)
	}
	var gaveUp *throttle.Error
	if err != nil && !errors.As(err, &gaveUp) {
		t.Errorf("error %v is no *throttle.Error", err)
	}
}

// Whatever a server does with streams and connections, nothing of a request
// stays behind, what is not idempotent is executed once at most, and what was
// executed is not said to be not.
func TestSoakHostileWire(t *testing.T) {
	seeds := uint64(15)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 1000
	}
	for _, http2 := range []bool{false, true} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("http2=%v/%d", http2, seed), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { wireAttack(t, seed, http2) })
			})
		}
	}
}
