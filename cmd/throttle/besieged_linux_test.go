package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestSoakSlowBeside: while 5,000 connections send a header, a body or read an answer
// next to never, the p99 of others is at most twice the worse of those before and after,
// in the median of five programs, and each takes at most 150 MB more. Once their timeout,
// a 64th of it and a second have passed since the last was opened, it has at most 20 files
// more open.
func TestSoakSlowBeside(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("measures; THROTTLE_SOAK=1 runs it")
	}
	long := bytes.Repeat([]byte("x"), 16<<20)
	to := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Write(long)
			return
		}
		io.Copy(io.Discard, r.Body)
	}))
	to.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(256 << 10) // it is in the process that measures: megabytes copied at once would be seen
		return ctx
	}
	to.Start()
	defer to.Close()
	var times []float64
	for range 5 {
		times = append(times, slowBeside(t, to.URL))
	}
	slices.Sort(times)
	t.Logf("p99 of others %.2f times", times)
	if times[2] > 2 {
		t.Errorf("p99 of others %.2f times, want a median of 2", times)
	}
}

// slowBeside returns by how many times 5,000 slow connections raise the p99 of others.
func slowBeside(t *testing.T, to string) float64 {
	const connections, timeout = 5000, 10 * time.Second
	addr, pid := besieged(t, to, timeout, "")
	rest := files(t, pid)
	before := besides(t, addr, time.After(4*time.Second), nil)
	size, most := held(t, pid), 0
	slow, opened := besieges(t, addr, connections)
	during := besides(t, addr, time.After(timeout), func() { most = max(most, held(t, pid)-size) })
	last, all := <-opened
	if !all {
		t.FailNow()
	}
	for files(t, pid) > rest+20 && time.Since(last) < time.Minute { // a few of the others are idle
		most = max(most, held(t, pid)-size)
		time.Sleep(20 * time.Millisecond)
	}
	ended := time.Since(last)
	for _, c := range slow {
		c.Close()
	}
	after := besides(t, addr, time.After(4*time.Second), nil)
	t.Logf("p99 of others %v before, %v during, %v after; +%d MB resident; the last ended %v after the last was opened", before, during, after, most>>20, ended)
	if most > 150<<20 {
		t.Errorf("+%d MB, want 150", most>>20)
	}
	if most := timeout*65/64 + time.Second; ended > most { // -idle, or a 64th more
		t.Errorf("the last connections are held for %v, want %v", ended, most)
	}
	return float64(during) / float64(max(before, after))
}

// besieges opens n connections that send or read next to nothing, 1,000 a second: what is
// measured is how they are held. The channel says when the last was opened, and is closed.
func besieges(t *testing.T, addr string, n int) ([]net.Conn, <-chan time.Time) {
	texts := []string{
		"GET / HTTP/1.1\r\nHost: h\r\nX: ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
	}
	const reader = "GET /long HTTP/1.1\r\nHost: h\r\n\r\n" // few: each fills buffers of the kernel with megabytes
	slow := make([]net.Conn, n)
	opened := make(chan time.Time, 1)
	t.Cleanup(func() { // the context of the test has ended
		<-opened
		for _, c := range slow {
			if c != nil {
				c.Close()
			}
		}
	})
	go func() {
		defer close(opened)
		for i := range slow {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				if t.Context().Err() == nil {
					t.Error(err)
				}
				return
			}
			slow[i] = c
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			text := texts[i%len(texts)]
			if i%100 == 0 {
				text = reader
			}
			_, _ = io.WriteString(c, text)
			time.Sleep(time.Millisecond)
		}
		opened <- time.Now()
	}()
	return slow, opened
}

// besieged starts throttle serve in front of to, with rules if there are any.
func besieged(t *testing.T, to string, timeout time.Duration, rules string) (addr string, pid int) {
	addr = clitest.Vacant(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	text := fmt.Sprintf("version: 1\ngateway:\n  listen: %s\n  header_timeout: %v\n  routes: {to: %q, idle: %v}\ndrain: {delay: 0s, timeout: 1s}\nlog: {level: error}\n", addr, timeout, to, timeout)
	if rules != "" {
		text += "rules: {file: rules.yaml}\n"
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := program(t, "serve", file)
	c.Stderr = t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	pid = c.Process.Pid
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr, pid
		}
		if time.Now().After(late) {
			t.Fatal("it does not listen")
		}
	}
}

// besides sends requests one after the other, 2 ms apart, until over says something, and
// returns their p99. It calls tick at every 20th.
func besides[T any](t *testing.T, addr string, over <-chan T, tick func()) time.Duration {
	t.Helper()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	var all []time.Duration
	for ; ; time.Sleep(2 * time.Millisecond) {
		select {
		case <-over:
			slices.Sort(all)
			return all[len(all)*99/100]
		default:
		}
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/", nil)
		began := time.Now()
		a, err := transport.RoundTrip(r)
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("others are not served: %v, %v", a, err)
		}
		io.Copy(io.Discard, a.Body)
		a.Body.Close()
		all = append(all, time.Since(began))
		if tick != nil && len(all)%20 == 0 {
			tick()
		}
	}
}

// files is how many a process has open.
func files(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// held is how many bytes of a process are resident.
func held(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
