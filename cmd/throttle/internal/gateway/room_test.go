package gateway

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
)

// TestPlacesOfSlowCallers: where load shedding learns its bound, event streams, sockets,
// callers that do not go on sending and callers that do not read hold no place in it, or a
// few of them would have all others refused. What waits for the service does: for its answer,
// the rest of it, or for room for the body. A bound that is set counts all.
func TestPlacesOfSlowCallers(t *testing.T) {
	over := make(chan struct{})
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			http.NewResponseController(w).Flush()
		case "/works":
			io.Copy(io.Discard, r.Body)
		case "/full": // it takes nothing of the body
		default:
			stalls(w, r)
			return
		}
		select {
		case <-r.Context().Done():
		case <-over: // net/http does not notice an end behind a body that is not read
		}
	})
	t.Cleanup(func() { close(over) })
	full := make([]byte, 8<<20)
	begin := func(most int) *admit.Shedder {
		e := serve(t, Config{
			Routes: []Route{{To: []string{to}, Shed: &Shed{MaxInFlight: most}}}, Control: new(admit.Control), Drain: Drain{Timeout: 10 * time.Millisecond},
		})
		c := e.dial()
		io.WriteString(c, lines("POST /full HTTP/1.1", "Host: h", "Content-Length: 8388608"))
		go c.Write(full)
		for range 2 {
			io.WriteString(e.dial(), lines("GET /events HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("GET /socket HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"))
			io.WriteString(e.dial(), lines("POST /upload HTTP/1.1", "Host: h", "Content-Length: 9")+"x")
			io.WriteString(e.dial(), lines("GET /unread HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("GET /answer HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("POST /works HTTP/1.1", "Host: h", "Content-Length: 1")+"x")
		}
		return e.Shedders()["/*"]
	}
	learnt, set := begin(0), begin(13)
	for ends := time.Now().Add(5 * time.Second); learnt.Stats().InFlight != 5 && time.Now().Before(ends); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * lasting) // the others keep theirs
	if n := learnt.Stats().InFlight; n != 5 {
		t.Errorf("%d hold places of a learnt bound, want the 5 that wait for the service", n)
	}
	if n := set.Stats().InFlight; n != 13 {
		t.Errorf("%d hold places of a bound of 13, want all", n)
	}
}
