package throttlehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/store"
)

const priorities = `{"rules": [
	{"name": "critical", "match": {"paths": "/pay"}, "priority": "critical"},
	{"name": "low", "match": {"paths": "/batch"}, "priority": "low"},
	{"name": "each", "key": "header:X-User", "missing": "pass", "limits": "1000/h"}
]}`

// What does not fit waits in order of its priority, and what cannot be in time is
// refused at once, by 503, and not charged.
func TestHandlerShed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &book{now: t0}
		h := &Handler{
			Control: &admit.Control{Store: store, Rules: live(t, priorities), Shed: &admit.Shedder{MaxInFlight: 1, MaxWaiting: 3, MaxWait: 5 * time.Second}},
			Next:    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }),
		}
		type end struct {
			answer string
			after  time.Duration
		}
		ends := make([]end, 6)
		for i, path := range []string{"/", "/batch", "/", "/pay", "/batch", "/pay"} {
			began := time.Now()
			go func() {
				r := ask(h, "GET", with("path", path, "X-User", "u"))
				ends[i] = end{r.Header.Get("Retry-After"), time.Since(began)}
				if r.StatusCode != 200 {
					ends[i].answer = told(r)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, want := range []end{
			{"", 1 * time.Second},       // at once
			{"503 | Retry-After: 1", 0}, // pushed out by 5
			{"", 4 * time.Second},       // the last
			{"", 2 * time.Second},       // first of its priority
			{"503 | Retry-After: 1", 0}, // no room, and nobody is lower
			{"", 3 * time.Second},       // behind 3
		} {
			if ends[i] != want {
				t.Errorf("request %d: %+v, want %+v", i, ends[i], want)
			}
		}
		var used int64
		for _, s := range store.states {
			used += limit.Used(s, t0, limit.Limit{Count: 1000, Period: time.Hour})
		}
		if used != 4 {
			t.Errorf("%d charged, want the 4 that were served", used)
		}
		if st := h.Control.Shed.Stats(); st.InFlight != 0 || st.Waiting != 0 {
			t.Errorf("in the end %+v, want none", st)
		}
	})
}

// Half of all load is shed: critical requests are hardly delayed, refusals say when
// to come again, and those times are spread.
func TestHandlerShedsHalf(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &Handler{
			Control: &admit.Control{Rules: live(t, priorities), Store: &book{now: t0}, Shed: &admit.Shedder{MaxInFlight: 10}},
			Next:    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) }),
		}
		served, all := map[string]int{}, map[string]int{}
		back := map[time.Duration]int{} // how many are told to come in which second
		began := time.Now()
		done := make(chan [3]string)
		const n = 200 * 60 // 200 a second, where 100 can be served
		var arrivals sync.WaitGroup
		arrivals.Go(func() {
			for i := range n {
				path := []string{"/pay", "/", "/batch", "/", "/batch"}[i%5]
				go func() {
					r := ask(h, "GET", with("path", path), from(fmt.Sprint("192.0.2.1:", i), 1))
					s := "shed"
					if r.StatusCode == 200 {
						s = "served"
					}
					done <- [3]string{path, s, r.Header.Get("Retry-After")}
				}()
				time.Sleep(5 * time.Millisecond)
			}
		})
		for range n {
			d := <-done
			all[d[0]]++
			if d[1] == "served" {
				served[d[0]]++
			} else {
				after, err := time.ParseDuration(d[2] + "s")
				if err != nil || after < time.Second {
					t.Fatalf("refused with Retry-After %q, want seconds", d[2])
				}
				back[(time.Since(began)+after).Truncate(time.Second)]++
			}
		}
		part := func(path string) float64 { return float64(served[path]) / float64(all[path]) }
		if part("/pay") < 0.994 || part("/") < 0.5 || part("/batch") > 0.4 {
			t.Errorf("served %.3f of critical, %.3f of normal, %.3f of low; want all, most, few", part("/pay"), part("/"), part("/batch"))
		}
		for second, n := range back {
			if n > 130 {
				t.Errorf("%d are told to come back in second %v, where 100 can be served", n, second)
			}
		}
		arrivals.Wait()
	})
}

// The caller goes while it waits: it is no longer in line, and not charged.
func TestHandlerShedGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &book{now: t0}
		var reasons []string
		h := &Handler{
			Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 10, Period: time.Hour}, Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: time.Minute}, OnEvent: func(e admit.Event) { reasons = append(reasons, e.Reason()) }},
			Next:    hello,
		}
		p, err := h.Control.Shed.Acquire(t.Context(), load.Critical)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		ask(h, "GET", func(r *http.Request) { *r = *r.WithContext(ctx) })
		if took := time.Since(began); took != time.Second || len(reasons) != 1 || reasons[0] != "gone" {
			t.Errorf("after %v, %q; want it gone after 1s", took, reasons)
		}
		if used := limit.Used(store.states["default/"], t0, h.Control.Limit); used != 0 {
			t.Errorf("%d charged, want 0", used)
		}
	})
}

// Instead of a refusal, less than what was asked for.
func TestHandlerDegrades(t *testing.T) {
	lost := errors.New("lost")
	h := &Handler{
		Control: &admit.Control{Store: &book{now: t0}, Rules: live(t, `{"deny": "203.0.113.0/24", "rules": [{"name": "few", "limits": "1/min"}]}`)},
		Request: requests(byPriority(func(*http.Request) load.Priority { return load.High })),
		Next:    hello,
		Degraded: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			e, ok := Why(r)
			if !ok {
				t.Error("Why says nothing in Degraded")
			}
			io.WriteString(w, e.Reason()+" "+e.Answer.Rule+" "+e.RetryAfter.String())
		}),
	}
	text := func(change ...func(*http.Request)) (int, string, string) {
		r := ask(h, "GET", change...)
		body, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(body), told(r)
	}
	if _, body, _ := text(); body != "hello" {
		t.Errorf("the first gets %q, want hello", body)
	}
	status, body, all := text()
	if want := `200 | RateLimit: "few";r=0;t=60 | RateLimit-Policy: "few";q=1;w=60`; status != 200 || body != "over few 1m0s" || all != want {
		t.Errorf("the second gets %q, %s; want it degraded, and no Retry-After", body, all)
	}
	if status, body, _ := text(with("from", "203.0.113.1")); status != 403 || body[0] != '{' {
		t.Errorf("a denied caller gets %d %q, want 403", status, body)
	}
	h.Control.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, lost })
	if status, _, _ := text(); status != 503 {
		t.Errorf("with a broken Store: %d, want 503", status)
	}
	h.Control.Rules, h.Control.Shed = nil, &admit.Shedder{MaxInFlight: 1, MaxWait: -1}
	p, err := h.Control.Shed.Acquire(t.Context(), load.Low)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if status, body, _ := text(); status != 200 || body != "shed  1s" {
		t.Errorf("without room: %d %q, want it degraded, shed", status, body)
	}
	if _, ok := Why(&http.Request{}); ok {
		t.Error("Why outside of Degraded = true, want false")
	}
}
