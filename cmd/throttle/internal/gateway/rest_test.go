package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRestIsRead: a caller that goes on sending its body after an answer that did not wait
// for it meets no reset, by which it would lose the answer.
func TestRestIsRead(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	first := service(t, func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // a failure is seen by the test
		w.WriteHeader(403)
	})
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for _, c := range []struct {
		name, to, rules string
		status          int
	}{
		{"an upstream by HTTP/2", strings.Replace(s.URL, "http", "h2c", 1), `[]`, 403},
		{"an upstream by HTTP/1", first, `[]`, 403},
		{"a limit", first, `[{"name": "none", "limits": "0/s"}]`, 429},
	} {
		e := serve(t, Config{Control: control(t, `{"rules": `+c.rules+`}`), Routes: []Route{{To: []string{c.to}}}})
		for _, frame := range []string{"Content-Length: 9000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n895440\r\n"} {
			to := e.dial()
			if _, err := io.WriteString(to, "POST / HTTP/1.1\r\nHost: h\r\n"+frame+"x"); err != nil {
				t.Fatal(err)
			}
			a, err := http.ReadResponse(bufio.NewReader(to), nil)
			if err != nil || a.StatusCode != c.status || !a.Close {
				t.Fatalf("%s: %q: %v, %v", c.name, frame, a, err)
			}
			a.Body.Close()
			for sent := 1; sent < 8<<20 && err == nil; sent += len(piece) {
				_, err = to.Write(piece)
			}
			if err = errors.Join(err, to.(*net.TCPConn).CloseWrite()); err != nil || !ends(to) {
				t.Errorf("%q, answered by %s: the rest: %v", frame, c.name, err)
			}
		}
	}
}
