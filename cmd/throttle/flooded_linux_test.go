package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSoakFloodOfKeys: 10 million keys that callers make up go through the program. None is
// refused, and a key above its limit stays refused. The p99 of another caller is at most
// twice what it is while as many requests name one key, and the program takes at most
// 100 MB more than after those: the store's 32 MiB, what counts heavy hitters, and as much
// again for the collector.
func TestSoakFloodOfKeys(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("takes ten minutes; THROTTLE_SOAK=1 runs it")
	}
	const keys = 10_000_000
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer to.Close()
	addr, pid := besieged(t, to.URL, 10*time.Second, `
rules:
  - {name: flooded, match: {paths: /flooded}, key: 'header:X-Key', limits: 10/day}
  - {name: quiet, match: {paths: /quiet}, key: 'header:X-Key', limits: 1000000000/day}
`)
	f := &flood{t: t, addr: addr, pid: pid}
	quiet := f.beside("/quiet", keys/10, func(int) string { return "one" })
	before := f.most
	f.ask("/flooded", func(int) string { return "offender" }, 11)
	f.refused.Store(0)
	loud := f.beside("/flooded", keys, func(i int) string { return fmt.Sprint("made-up-", i) })
	more := (f.most - before) >> 20
	t.Logf("%d keys: p99 of another %v, %v while one key asks (%.2f times); +%d MB; %d refused; of %d of the key above its limit %d passed",
		keys, loud, quiet, float64(loud)/float64(quiet), more, f.refused.Load(), f.above, f.passed)
	if f.refused.Load() > 0 || f.passed > 0 || f.above == 0 {
		t.Errorf("%d made-up keys were refused, and of %d requests above a limit %d passed; want none", f.refused.Load(), f.above, f.passed)
	}
	if loud > 2*quiet || more > 100 {
		t.Errorf("p99 of another %v for %v, and +%d MB, want twice and 100", loud, quiet, more)
	}
}

// flood sends requests on 8 connections.
type flood struct {
	t       *testing.T
	addr    string
	pid     int
	refused atomic.Int64
	most    int // bytes that the program held
	above   int // requests of the key that is above its limit
	passed  int // how many of these passed
}

// beside sends n requests and returns the p99 of another caller meanwhile.
func (f *flood) beside(path string, n int, key func(int) string) time.Duration {
	const workers = 8
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { f.ask(path, func(i int) string { return key(w*n + i) }, n/workers) })
	}
	over := make(chan struct{})
	go func() { defer close(over); all.Wait() }()
	f.most = 0
	p99 := besides(f.t, f.addr, over, func() {
		f.most = max(f.most, held(f.t, f.pid))
		if path == "/flooded" {
			r, _ := http.NewRequestWithContext(f.t.Context(), "GET", "http://"+f.addr+path, nil)
			r.Header.Set("X-Key", "offender")
			a, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				f.t.Fatal(err)
			}
			a.Body.Close()
			f.above++
			if a.StatusCode != 429 {
				f.passed++
			}
		}
	})
	<-over
	return p99
}

// ask sends n requests on one connection, 50 at a time.
func (f *flood) ask(path string, key func(int) string, n int) {
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	var text strings.Builder
	for at := 0; at < n; at += 50 {
		text.Reset()
		some := min(50, n-at)
		for i := range some {
			fmt.Fprintf(&text, "GET %s HTTP/1.1\r\nHost: h\r\nX-Key: %s\r\n\r\n", path, key(at+i))
		}
		if _, err := io.WriteString(c, text.String()); err != nil {
			f.t.Error(err)
			return
		}
		for range some {
			a, err := http.ReadResponse(r, nil)
			if err != nil {
				f.t.Error(err)
				return
			}
			io.Copy(io.Discard, a.Body)
			if a.StatusCode != 200 {
				f.refused.Add(1)
			}
		}
	}
}
