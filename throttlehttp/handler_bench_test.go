package throttlehttp

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
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
		{"silent", &Handler{Next: next, Limit: wide, Key: RemoteIP, Headers: Silent}},
		{"draft", &Handler{Next: next, Limit: wide, Key: RemoteIP}},
		{"rules", &Handler{Next: next, Rules: live}},
		{"counted", &Handler{Next: next, Limit: wide, Key: RemoteIP, On: new(Counts).On}},
		{"shed", &Handler{Next: next, Limit: wide, Key: RemoteIP, Shed: &throttle.Shedder{Most: 100}}},
		{"refused", &Handler{Next: next, Limit: limit.Limit{Count: 1, Period: time.Hour}, Key: RemoteIP}},
	} {
		b.Run(x.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "http://api.test/things", nil)
			w := &sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				x.h.ServeHTTP(w, r)
			}
		})
	}
}
