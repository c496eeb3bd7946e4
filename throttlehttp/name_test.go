package throttlehttp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

func TestNames(t *testing.T) {
	var made []string
	tr := &Transport{Base: replies(says(200)), Throttles: &throttle.Group{MaxMembers: 3, New: func(name string) *throttle.Throttle {
		made = append(made, name)
		return nil
	}}}
	visit := func(host string) {
		req := request(t, "GET", "")
		req.URL = &url.URL{Scheme: "http", Host: host}
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if n := tr.Throttles.Len(); n > 3 {
			t.Errorf("after %s: %d names; want at most 3", host, n)
		}
	}
	for _, host := range []string{"a", "b", "c", "A", "d", "a", "c", "b:80"} {
		visit(host)
	}
	// d pushed out b, which was unused for longest; c was still there.
	if want := []string{"a", "b", "c", "d", "b:80"}; !slices.Equal(made, want) {
		t.Errorf("made the names %q; want %q", made, want)
	}
	for i := range 100 {
		visit(fmt.Sprint("host", i))
	}
}

func TestNamesArePacedApart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{reply: func(n int, r *http.Request) (*http.Response, error) {
			if r.URL.Host == "slow.test" && n == 0 {
				return answer(429, "", "Retry-After", "60"), nil
			}
			return answer(200, ""), nil
		}}
		tr := &Transport{Base: w, Name: func(r *http.Request) string { return "customer of " + r.URL.Host }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := request(t, "GET", "").WithContext(ctx)
		slow.URL.Host = "slow.test"
		go tr.RoundTrip(slow)
		synctest.Wait()
		began := time.Now()
		if _, err := tr.RoundTrip(request(t, "GET", "")); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v; want another host to be served at once", err, time.Since(began))
		}
		if n := tr.own.Len(); n != 2 {
			t.Errorf("%d scopes, want that of either customer", n)
		}
	})
}

// Group leads to the Throttles of a Transport, whether they are its own or given.
func TestTransportGroup(t *testing.T) {
	var given throttle.Group
	for _, tr := range []*Transport{{MaxWait: -1}, {Throttles: &given}} {
		g := tr.Group()
		if (g == &given) != (tr.Throttles != nil) || g != tr.Group() {
			t.Errorf("Throttles %p: Group %p", tr.Throttles, g)
		}
		m := tr.enter("h")
		n := 0
		for name, th := range g.All() {
			n++
			if name != "h" || th != m.Throttle() || tr.Throttles == nil && th.MaxWait != -1 {
				t.Errorf("%q leads to %+v", name, th)
			}
		}
		if m.Leave(); n != 1 || g.Len() != 1 {
			t.Errorf("%d Throttles of %d names, want 1 of 1", n, g.Len())
		}
	}
}
