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
// and for the rest of it, unless that takes long. A bound that is set counts all.
func TestPlacesOfSlowCallers(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			http.NewResponseController(w).Flush()
		case "/works":
			io.Copy(io.Discard, r.Body)
		default:
			stalls(w, r)
			return
		}
		<-r.Context().Done()
	})
	begin := func(most int) (*engine, *admit.Shedder) {
		e := serve(t, Config{
			Routes: []Route{{To: []string{to}, Shed: &Shed{MaxInFlight: most}}}, Control: new(admit.Control), Drain: Drain{Timeout: 10 * time.Millisecond},
		})
		for range 2 {
			io.WriteString(e.dial(), lines("GET /events HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("GET /socket HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"))
			io.WriteString(e.dial(), lines("POST /upload HTTP/1.1", "Host: h", "Content-Length: 9")+"x")
			io.WriteString(e.dial(), lines("GET /unread HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("GET /answer HTTP/1.1", "Host: h"))
			io.WriteString(e.dial(), lines("POST /works HTTP/1.1", "Host: h", "Content-Length: 1")+"x")
		}
		return e, e.Shedders()["/*"]
	}
	e, learnt := begin(0)
	_, set := begin(12)
	for ends := time.Now().Add(5 * time.Second); learnt.Stats().InFlight != 4 && time.Now().Before(ends); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * lasting) // the others keep theirs
	if n := learnt.Stats().InFlight; n != 4 {
		t.Errorf("%d hold places of a learnt bound, want the 4 that wait for the service", n)
	}
	if n := set.Stats().InFlight; n != 12 {
		t.Errorf("%d hold places of a bound of 12, want all", n)
	}
	list := &(*e.routes.Load())[0].watch
	list.mu.Lock()
	for x := list.first; x != nil; x = x.after {
		for range mostLasting { // as if time had passed
			x.yield()
		}
	}
	list.mu.Unlock()
	if n := learnt.Stats().InFlight; n != 2 {
		t.Errorf("%d hold places of a learnt bound, want the 2 without an answer, and not the 2 whose answers go on", n)
	}
}
