package throttlehttp

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

const bothPhases = `{"rules": [
	{"name": "ip", "phase": "before", "key": "address", "limits": "2/h", "in_flight": 1},
	{"name": "seen", "phase": "before", "key": "address", "limits": "2/h", "shadow": true},
	{"name": "user", "phase": "after", "key": "client", "limits": "5/h"}
]}`

// authenticated is next behind a check of a password.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Password") == "wrong" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Header.Del("X-Password") // what is given back does not depend on it
		next.ServeHTTP(w, r)
	})
}

// The unknown are limited by their address, the known by what they are: what was
// taken by address is given back.
func TestHandlerBeforeAndAfter(t *testing.T) {
	store, counting, both := &book{now: t0}, new(store.InFlight), live(t, bothPhases)
	shadows := 0
	after := &Handler{
		Control: &admit.Control{Store: store, Rules: both, Phase: rules.After, OnEvent: func(e admit.Event) {
			if e.RefundErr != nil {
				t.Errorf("giving back: %v", e.RefundErr)
			}
			if n := counting.Stats().Holds; n != 0 && e.Answer.Rule == "user" && e.Verdict == admit.Admitted && e.Request.Client != "" {
				t.Errorf("%d held for the address of an authenticated caller, want none", n)
			}
		}},
		Request: requests(byClient(func(r *http.Request) string { return r.Header.Get("X-User") })),
		Next:    hello,
	}
	before := &Handler{
		Control: &admit.Control{Store: store, Rules: both, InFlight: counting, Phase: rules.Before, OnEvent: func(e admit.Event) { shadows += len(e.Answer.Shadow) }},
		Next:    authenticated(after),
	}
	user := with("X-User", "u")
	for i := range 5 {
		if r := ask(before, "GET", user); r.StatusCode != 200 {
			t.Fatalf("request %d of an authenticated caller: %s, want 200", i, told(r))
		}
	}
	r := ask(before, "GET", user)
	if want := `429 | Retry-After: 720 | RateLimit: "user";r=0;t=720 | RateLimit-Policy: "user";q=5;w=3600`; told(r) != want {
		t.Errorf("the sixth of an authenticated caller: %s, want %s", told(r), want)
	}
	wrong := with("X-Password", "wrong")
	for i, want := range []int{401, 401, 429} {
		if r := ask(before, "GET", wrong); r.StatusCode != want {
			t.Errorf("wrong password %d: %s, want %d", i, told(r), want)
		}
	}
	if r := ask(before, "GET", user); r.StatusCode != 429 {
		t.Errorf("an authenticated caller, at an address that has used up its own: %s, want 429", told(r))
	}
	if shadows != 0 {
		t.Errorf("the shadow rule would have refused %d, want 0: what it took is given back too", shadows)
	}
}

// The same with plain limits, and a program that authenticates by itself.
func TestRefund(t *testing.T) {
	store := &book{now: t0}
	outer := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 1, Period: time.Hour}, Name: "outer", Phase: rules.Before}}
	inner := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 3, Period: time.Hour}, Name: "inner", Phase: rules.Before}, Request: requests(byCost(func(*http.Request) int64 { return 3 }))}
	outer.Next = inner
	inner.Next = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-User") == "" {
			return
		}
		for range 2 { // once is enough
			if err := admit.Refund(context.WithValue(r.Context(), eventKey{}, "of another")); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		if r := ask(outer, "GET", with("X-User", "u")); r.StatusCode != 200 {
			t.Fatalf("%s, want 200 as all was given back", told(r))
		}
	}
	s := store.states["inner/"]
	if used := limit.Used(s, t0, inner.Control.Limit); used != 0 {
		t.Errorf("%d used, want 0: not more and not less than was taken is given back", used)
	}
	ask(outer, "GET")
	if r := ask(outer, "GET", with("X-User", "u")); r.StatusCode != 429 {
		t.Errorf("%s, want 429: what an unknown used stays used", told(r))
	}
	if err := admit.Refund(t.Context()); err != nil {
		t.Errorf("nothing to give back: %v, want no error", err)
	}
}

// Once is once: what others used is not given back with it.
func TestRefundOnce(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 5, Period: time.Hour}, Phase: rules.Before}}
	ask(h, "GET")
	h.Next = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for range 3 {
			if err := admit.Refund(r.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	ask(h, "GET")
	if used := limit.Used(store.states["default/192.0.2.1"], t0, h.Control.Limit); used != 1 {
		t.Errorf("%d used, want the 1 of the other", used)
	}
}

// What is given back is so even when the request has ended; a Store that fails is
// told of.
func TestRefundErrors(t *testing.T) {
	lost := errors.New("connection lost")
	var ended error
	store := store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if a[0].N < 0 {
			_, bounded := ctx.Deadline()
			if ended = ctx.Err(); !bounded {
				t.Error("giving back has no deadline")
			}
			return false, lost
		}
		d[0] = limit.Decision{OK: true, N: a[0].N}
		return true, nil
	})
	var got error
	after := &Handler{Control: &admit.Control{OnEvent: func(e admit.Event) { got = e.RefundErr }}, Request: requests(byClient(func(*http.Request) string { return "u" }))}
	before := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 1, Period: time.Hour}, Phase: rules.Before}}
	before.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		after.ServeHTTP(w, r.WithContext(ctx))
	})
	if r := ask(before, "GET"); r.StatusCode != 204 || !errors.Is(got, lost) || ended != nil {
		t.Errorf("%s, RefundErr %v, context %v; want 204, the error, a context that goes on", told(r), got, ended)
	}
}
