package throttlehttp

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// sink is a ResponseWriter that keeps nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// BenchmarkHandler is a Handler, beside what it stands before alone.
func BenchmarkHandler(b *testing.B) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	wide := limit.Limit{Count: 1e9, Period: time.Second}
	live := new(rules.Live)
	c, err := rules.Parse([]byte(`{"rules": [
		{"name": "address", "key": "address", "limits": "1000000000/s"},
		{"name": "reports", "match": {"paths": "/reports/*"}, "limits": "1/s"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	live.Swap(c)
	for _, x := range []struct {
		name string
		h    http.Handler
	}{
		{"next", next},
		{"silent", &Handler{Control: &admit.Control{Limit: wide}, Next: next, Headers: Silent}},
		{"draft", &Handler{Control: &admit.Control{Limit: wide}, Next: next}},
		{"rules", &Handler{Control: &admit.Control{Rules: live}, Next: next}},
		{"counted", &Handler{Control: &admit.Control{Limit: wide, OnEvent: new(admit.Counter).OnEvent}, Next: next}},
		{"shed", &Handler{Control: &admit.Control{Limit: wide, Shed: &admit.Shedder{MaxInFlight: 100}}, Next: next}},
		{"learnt", &Handler{Control: &admit.Control{Limit: wide, Shed: new(admit.Shedder)}, Next: next}},
		{"refused", &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}}, Next: next}},
	} {
		b.Run(x.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "http://api.test/things", nil)
			w := &reader{sink: sink{http.Header{}}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				x.h.ServeHTTP(w, r)
			}
		})
	}
}

// TestHandlerAllocations: the fast path makes what reads the header, the
// key, and what is told; a refusal a few more.
func TestHandlerAllocations(t *testing.T) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	wide := limit.Limit{Count: 1e9, Period: time.Second}
	for _, x := range []struct {
		name string
		h    *Handler
		want float64
	}{
		{"no limit", &Handler{Next: next}, 0},
		{"silent", &Handler{Control: &admit.Control{Limit: wide}, Next: next, Headers: Silent}, 3},
		{"draft", &Handler{Control: &admit.Control{Limit: wide, OnEvent: new(admit.Counter).OnEvent, Shed: &admit.Shedder{MaxInFlight: 9}}, Next: next}, 5},
		{"rules", &Handler{
			Control: &admit.Control{Rules: live(t, addressRule), Store: store.FailOpen(store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				d[0] = limit.Decision{OK: true, N: a[0].N}
				return true, nil
			}))},
			Next:    next,
			Headers: Silent,
		}, 3},
	} {
		r := httptest.NewRequest("GET", "http://api.test/things", nil)
		w := &sink{http.Header{}}
		least := math.Inf(1)
		for range 50 { // pools forget at random under the race detector
			least = min(least, testing.AllocsPerRun(1, func() { x.h.ServeHTTP(w, r) }))
		}
		if least > x.want {
			t.Errorf("%s: %v allocations, want %v", x.name, least, x.want)
		}
	}
}
