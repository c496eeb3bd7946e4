//go:build unix

package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
)

// attacker speaks HTTP/2 as no client does.
type attacker struct {
	net.Conn
	*http2.Framer
	block  bytes.Buffer
	fields *hpack.Encoder
	stream uint32
}

func attack(t *testing.T, e *engine) *attacker {
	t.Helper()
	a := &attacker{Conn: e.dial(), stream: 1}
	a.Framer, a.fields = http2.NewFramer(a.Conn, a.Conn), hpack.NewEncoder(&a.block)
	if _, err := io.WriteString(a.Conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return a
}

// request begins a request; its path is the last of the fields.
func (a *attacker) request(path string) error {
	a.block.Reset()
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: path}} {
		if err := a.fields.WriteField(f); err != nil {
			return err
		}
	}
	defer func() { a.stream += 2 }()
	return a.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndStream: true, EndHeaders: true})
}

// footprint is what the process holds, at its most and without garbage, while something
// goes on.
func footprint(during func()) (heap int64, goroutines int) {
	read := func() (int64, int) {
		var m runtime.MemStats
		runtime.GC() // when garbage goes depends on the speed of the machine
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse), runtime.NumGoroutine()
	}
	h, n := read()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			now, count := read()
			heap, goroutines = max(heap, now-h), max(goroutines, count-n)
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	during()
	close(over)
	<-done
	return heap, goroutines
}

// TestRapidReset: 5,000 streams (100,000 with THROTTLE_SOAK=1) that are reset as soon
// as they are begun (CVE-2023-44487), by the caller or, by what it sends, by the server
// (CVE-2025-8671): each that is decided is charged, no more than the limit reach the
// upstream, others are served meanwhile, and little is held.
func TestRapidReset(t *testing.T) {
	streams := 5_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		streams = 100_000
	}
	for what, reset := range map[string]func(a *attacker, stream uint32) error{
		"by the caller": func(a *attacker, stream uint32) error { return a.WriteRSTStream(stream, http2.ErrCodeCancel) },
		"by a window of zero": func(a *attacker, stream uint32) error {
			return a.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, make([]byte, 4))
		},
		"by a window too large": func(a *attacker, stream uint32) error { return a.WriteWindowUpdate(stream, 1<<31-1) },
	} {
		t.Run(what, func(t *testing.T) { rapidReset(t, streams, reset) })
	}
}

func rapidReset(t *testing.T, streams int, reset func(*attacker, uint32) error) {
	const most = 50
	var seen, decided, passed atomic.Int64
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/attacked" {
			seen.Add(1)
			<-r.Context().Done()
		}
	})
	limiter := control(t, fmt.Sprintf(`{"rules": {"name": "a", "match": {"paths": "/attacked"}, "limits": "%d/day fixed-window"}}`, most))
	limiter.OnEvent = func(e admit.Event) {
		if e.Request.Path == "/attacked" {
			decided.Add(1)
			if e.Answer.OK {
				passed.Add(1)
			}
		}
	}
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Control: limiter})
	var begun, served atomic.Int64
	heap, goroutines := footprint(func() {
		var all sync.WaitGroup
		over := make(chan struct{})
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				a, err := http.DefaultTransport.RoundTrip(e.request("GET", "/other", nil))
				if err != nil || a.StatusCode != 200 {
					t.Errorf("meanwhile another is answered %v, %v", a, err)
					return
				}
				a.Body.Close()
				served.Add(1)
			}
		})
		for late := time.Now().Add(time.Minute); begun.Load() < int64(streams) && time.Now().Before(late); {
			a := attack(t, e)
			go io.Copy(io.Discard, a.Conn) // ends with the connection
			for range 2000 {               // the server may end the connection before
				if a.request("/attacked") != nil || reset(a, a.stream-2) != nil {
					break
				}
				begun.Add(1)
			}
			a.Close()
		}
		close(over)
		all.Wait()
	})
	t.Logf("%d streams, %d decided, %d seen by the upstream; others were answered %d times; at most +%d kB and +%d goroutines", begun.Load(), decided.Load(), seen.Load(), served.Load(), heap>>10, goroutines)
	if begun.Load() < int64(streams) || passed.Load() > most || seen.Load() > most || decided.Load() == 0 || served.Load() == 0 {
		t.Errorf("%d passed and %d reached the upstream, want at most %d", passed.Load(), seen.Load(), most)
	}
	if heap > 100<<20 || goroutines > 5000 {
		t.Errorf("it held %d MB and %d goroutines more, want at most 100 and 5000", heap>>20, goroutines)
	}
}

// TestFloodOfKeys: 100,000 keys that callers make up (10 million with
// THROTTLE_SOAK=1), each with a limit and a bound of requests in flight: what is held
// is bounded, none is refused, and a key above its limit stays refused meanwhile.
func TestFloodOfKeys(t *testing.T) {
	keys := 100_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		keys = 10_000_000
	}
	events := new(admit.Counter)
	c := control(t, `{"rules": {"name": "a", "key": "client", "limits": "100/day", "in_flight": 10}}`)
	c.OnEvent = events.OnEvent
	begin := func(client string) bool {
		a, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Client: client, Now: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		a.Done()
		return a.OK
	}
	for range 100 {
		begin("offender")
	}
	refused, passed := 0, 0
	quiet := control(t, `{"rules": {"name": "a", "key": "client", "limits": "100/day", "in_flight": 10}}`)
	var full, few []time.Duration // of decisions about one key, here and where there are no others
	before := live()
	for i := range keys {
		if !begin(strconv.Itoa(i)) {
			refused++
		}
		if i%1000 == 0 && begin("offender") {
			passed++
		}
		if i%100 == 0 && i > keys/2 {
			full, few = append(full, decided(t, c)), append(few, decided(t, quiet))
		}
	}
	if ratio := percentile99(full) / percentile99(few); keys > 1_000_000 { // fewer say little
		if t.Logf("p99 of decisions %.2f times", ratio); ratio > 2 {
			t.Errorf("p99 of decisions beside the flood is %.2f times that without, want 2", ratio)
		}
	}
	held := live() - before
	t.Logf("+%d kB", held>>10)
	if refused > 0 || passed > 0 {
		t.Errorf("%d made-up keys were refused, and the key above its limit passed %d times; want neither", refused, passed)
	}
	if held > 38<<20 || len(events.Stats()) > 4 { // 32 MiB is the store's bound
		t.Errorf("%d MB and %d counters are held more", held>>20, len(events.Stats()))
	}
	runtime.KeepAlive(c)
}

// decided is how long a decision about one key takes.
func decided(t *testing.T, c *admit.Control) time.Duration {
	began := time.Now()
	a, err := c.Begin(t.Context(), admit.Request{Request: rules.Request{Client: "one", Now: began}})
	if err != nil {
		t.Fatal(err)
	}
	a.Done()
	return time.Since(began)
}

func percentile99(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)*99/100])
}

// live is how many bytes are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// room is for how many open files there are, where the system tells.
func room(t *testing.T) uint64 {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	return l.Cur
}

// TestSoakSlowConnections: 5,000 connections that send a header, a body, or read an
// answer, byte by byte or not at all, are held no longer than their timeouts, take
// little, and keep nobody out.
func TestSoakSlowConnections(t *testing.T) {
	soak(t)
	const connections = 5000
	if room(t) < 4*connections {
		t.Skipf("NOT tested: %d open files are allowed; write ulimit -n %d", room(t), 4*connections)
	}
	answer := bytes.Repeat([]byte("x"), 16<<20)
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Write(answer)
			return
		}
		io.Copy(io.Discard, r.Body)
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}, Idle: 5 * time.Second}}, Limits: Limits{HeaderTimeout: 5 * time.Second}})
	texts := []string{
		"GET / HTTP/1.1\r\nHost: h\r\nX: ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "",
		lines("POST / HTTP/1.1", "Host: h", "Content-Length: 100000") + "x",
		lines("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + "1\r\n",
	}
	if room(t) >= 8*connections {
		texts = append(texts, lines("GET /long HTTP/1.1", "Host: h"))
	}
	var slow []net.Conn
	began := time.Now()
	heap, _ := footprint(func() {
		for i := range connections {
			c := e.dial()
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4096)
			}
			_, _ = io.WriteString(c, texts[i%len(texts)])
			slow = append(slow, c)
			if i%50 == 0 {
				if status, _ := do(t, e.request("GET", "/", nil)); status != 200 {
					t.Errorf("meanwhile: %d", status)
				}
			}
		}
		t.Logf("%d connections after %v", len(slow), time.Since(began))
		for late := time.Now().Add(40 * time.Second); time.Now().Before(late) && e.counts.active.Load()+e.counts.fresh.Load() > 0; {
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Logf("all ended after %v, +%d MB, callers and upstream included", time.Since(began), heap>>20)
	if n := e.counts.active.Load() + e.counts.fresh.Load(); n > 0 || heap > connections*80<<10 {
		t.Errorf("%d connections are held still; at most %d MB were held more", n, heap>>20)
	}
	for _, c := range slow {
		c.Close()
	}
}
