package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestUpstreamWritesNoLog: an upstream that sends more than its answers, as often as it is
// asked, does not fill the log with what net/http says of that.
func TestUpstreamWritesNoLog(t *testing.T) {
	const requests = 40
	c := program(t, "gateway", "-to", talkative(t), "-listen", "127.0.0.1:0", "-limit", "1000000/s by address")
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	in := bufio.NewReader(said)
	addr := ""
	for addr == "" {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, &log)
		}
		log.WriteString(line)
		if _, rest, ok := strings.Cut(line, "127.0.0.1:"); ok && !strings.Contains(line, "-to") {
			addr = "127.0.0.1:" + rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return r < '0' || r > '9' })]
		}
	}
	over := make(chan bool)
	go func() { io.Copy(&log, in); close(over) }()
	began := time.Now()
	for range requests {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/", strings.NewReader("x"))
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
	}
	time.Sleep(20 * time.Millisecond) // net/http writes a little after the answer
	took := time.Since(began)
	_ = c.Process.Signal(os.Interrupt)
	<-over
	_ = c.Wait() // what it says of its end is not asked here
	if n, most := strings.Count(log.String(), "Unsolicited"), int(took/time.Second)+1; n > most || n == 0 {
		t.Errorf("%d lines of %d requests in %v, want 1 to %d: %.2000s", n, requests, took, most, &log)
	}
}

// talkative starts an upstream that sends another answer behind each, and returns its URL.
func talkative(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for r, err := http.ReadRequest(in); err == nil; r, err = http.ReadRequest(in) {
					io.Copy(io.Discard, r.Body)
					io.WriteString(c, strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 2))
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}
