package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hurried serves a Proxy whose callers have 100 ms to read a part of an answer, by path and inside
// CONNECT.
func hurried(t *testing.T, api http.HandlerFunc) (e *engine, url string) {
	t.Helper()
	p, s := interceptor(t, Config{Intercept: new(Intercept)}, API{}, api)
	p.takeIn = 100 * time.Millisecond
	return run(t, p), s.URL
}

// plainHTTP2 is a client of HTTP/2 without TLS.
func plainHTTP2(t *testing.T) *http.Client {
	c := &http.Transport{Protocols: new(http.Protocols)}
	c.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(c.CloseIdleConnections)
	return &http.Client{Transport: c}
}

// TestUnread: a caller that does not read its answer is cut, and the API's connection with it.
func TestUnread(t *testing.T) {
	gone := make(chan error, 1)
	e, url := hurried(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 64<<10)
		if r.Header.Get("Upgrade") != "" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			for err == nil {
				_, err = c.Write(part)
			}
			gone <- err
			return
		}
		var err error
		for err == nil {
			_, err = w.Write(part)
		}
		gone <- err
	})
	for name, open := range map[string]func() (io.Closer, error){
		"HTTP/1.1":                 func() (io.Closer, error) { return e.unread("") },
		"an upgrade":               func() (io.Closer, error) { return e.unread("Connection: Upgrade\r\nUpgrade: x\r\n") },
		"HTTP/2":                   func() (io.Closer, error) { return body(plainHTTP2(t).Get(e.url + "/api/")) },
		"HTTP/1.1, inside CONNECT": func() (io.Closer, error) { return body(e.client(false).Get(url)) },
		"HTTP/2, inside CONNECT":   func() (io.Closer, error) { return body(e.client(true).Get(url)) },
	} {
		c, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		select {
		case <-gone:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the API goes on, while its caller does not read", name)
		}
		c.Close()
	}
}

// unread sends a request, and reads the first line of its answer.
func (e *engine) unread(fields string) (net.Conn, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "GET /api/ HTTP/1.1\r\nHost: localhost\r\n%s\r\n", fields)
	_, err = bufio.NewReaderSize(c, 16).ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		err = nil
	}
	return c, err
}

func body(a *http.Response, err error) (io.Closer, error) {
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// TestSlowAPI: the bound for a caller that does not read is none for an API that has nothing to
// say for a while, nor does it remain for the next request.
func TestSlowAPI(t *testing.T) {
	e, url := hurried(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2 {
			fmt.Fprint(w, i)
			http.NewResponseController(w).Flush()
			<-time.After(300 * time.Millisecond)
		}
	})
	for name, c := range map[string]struct {
		*http.Client
		url string
	}{
		"HTTP/1.1": {new(http.Client), e.url + "/api/"}, "HTTP/2": {plainHTTP2(t), e.url + "/api/"},
		"HTTP/1.1, inside CONNECT": {e.client(false), url}, "HTTP/2, inside CONNECT": {e.client(true), url},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				a, err := c.Get(c.url)
				if err != nil {
					t.Fatal(err)
				}
				if got := e.read(a); got.body != "01" {
					t.Errorf("the caller got %q", got.body)
				}
			}
		})
	}
}
