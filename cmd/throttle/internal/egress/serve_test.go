package egress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestDrain: a request in flight is answered, and nothing is accepted any more.
func TestDrain(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	e := before(t, API{}, func(http.ResponseWriter, *http.Request) { in <- struct{}{}; <-out })
	var group sync.WaitGroup
	var a seen
	group.Go(func() { a = e.send("GET", "/api/", nil) })
	<-in
	done := make(chan error, 1)
	go func() { done <- e.end() }()
	refused := false
	for range 1000 {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", e.url+"/throttle/state.json", nil)
		r.Close = true
		answer, err := http.DefaultTransport.RoundTrip(r)
		if refused = err != nil; refused {
			break
		}
		answer.Body.Close()
	}
	close(out)
	group.Wait()
	if err := <-done; err != nil || !refused || a.StatusCode != 200 {
		t.Errorf("Serve returned %v, refused %t, answered %d", err, refused, a.StatusCode)
	}
}

// TestDrainOfPage: a page that is open does not hold up the end.
func TestDrainOfPage(t *testing.T) {
	e := before(t, API{}, status(200))
	r, _ := http.NewRequestWithContext(t.Context(), "GET", e.url+"/throttle/events", nil)
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	began := time.Now()
	if err := e.end(); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("Serve returned %v after %v", err, time.Since(began))
	}
}

// TestDrainCuts: what waits still at the end of the drain is answered that it may come
// again, and what is in flight is cut.
func TestDrainCuts(t *testing.T) {
	in := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // net/http sees that a caller has gone only behind its body
		in <- struct{}{}
		<-r.Context().Done()
	}))
	defer s.Close()
	e := serve(t, Config{
		APIs:  map[string]API{"api": {URL: s.URL, Rate: limit.Limit{Count: 1, Period: time.Minute}, MaxWait: time.Hour}},
		Drain: Drain{Timeout: 50 * time.Millisecond},
	})
	var group sync.WaitGroup
	answers := make([]seen, 2)
	group.Go(func() { answers[0] = e.send("POST", "/api/", strings.NewReader("x")) })
	<-in
	group.Go(func() { answers[1] = e.send("GET", "/api/", nil) })
	throttles, _ := e.Observed("api")
	for waits := 0; waits == 0; {
		for _, t := range throttles.All() {
			waits = t.Waiting()
		}
	}
	err := e.end()
	group.Wait()
	if err == nil || !strings.Contains(err.Error(), "2 requests were there still after 50ms of draining") {
		t.Errorf("Serve returned %v", err)
	}
	for i, want := range []struct {
		status int
		ran    string
	}{{504, "true"}, {503, "false"}} {
		if a := answers[i]; a.StatusCode != want.status || a.mark() != "ending" || a.Header.Get(mayHaveRun) != want.ran {
			t.Errorf("answered %d %q, %s, want %+v", a.StatusCode, a.mark(), a.body, want)
		}
	}
}
