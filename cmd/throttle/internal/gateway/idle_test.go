package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestIdleMakesRoom: where there are as many connections as there may be, one that waits
// for its next request gives way to a new one, and answers end their connections. Requests in
// flight and upgraded connections are not cut.
func TestIdleMakesRoom(t *testing.T) {
	working, work := make(chan bool), make(chan bool)
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/works" {
			close(working)
			<-work
		}
		upgrades(w, r)
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Limits: Limits{MaxConns: 5}})
	tunnel, busy := e.dial(), e.dial()
	in := bufio.NewReader(tunnel)
	io.WriteString(tunnel, lines("GET / HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"))
	if a, err := http.ReadResponse(in, nil); err != nil || a.StatusCode != 101 {
		t.Fatal(a, err)
	}
	io.WriteString(busy, lines("GET /works HTTP/1.1", "Host: h"))
	<-working
	get := func(last bool) net.Conn {
		t.Helper()
		c := e.dial()
		io.WriteString(c, lines("GET / HTTP/1.1", "Host: h"))
		if a, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || a.StatusCode != 200 || a.Close != last {
			t.Fatalf("%+v, %v; want 200, and the end of the connection: %t", a, err, last)
		}
		return c
	}
	idle := get(false)
	for range 2 {
		e.dial() // sends nothing
	}
	for range 20 { // none of them is closed by its caller
		get(true)
	}
	if !ends(idle) {
		t.Error("what waits for its next request is not closed")
	}
	fmt.Fprint(tunnel, "x")
	if b, err := in.ReadByte(); err != nil || b != 'x' {
		t.Errorf("the upgraded connection: %q, %v", b, err)
	}
	close(work)
	if a, err := http.ReadResponse(bufio.NewReader(busy), nil); err != nil || a.StatusCode != 200 {
		t.Errorf("the request in flight: %v, %v", a, err)
	}
}
