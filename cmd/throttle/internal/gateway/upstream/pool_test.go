package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/internal/bubble"
)

// names are the answers of a name server.
type names struct {
	mu      sync.Mutex
	hosts   map[string][]string
	records []*net.SRV
	asked   int
}

var errAway = errors.New("no such host")

func (n *names) LookupNetIP(_ context.Context, _, host string) (all []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	for _, text := range n.hosts[host] {
		all = append(all, netip.MustParseAddr(text))
	}
	if len(all) == 0 {
		return nil, errAway
	}
	return all, nil
}

func (n *names) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.records) == 0 {
		return "", nil, errAway
	}
	return "", n.records, nil
}

func (n *names) set(host string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = to
}

func poolOf(t *testing.T, o Options, targets ...string) *Pool {
	t.Helper()
	p, err := New(targets, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *Pool) addressesInUse() string {
	var all []string
	for _, s := range p.States() {
		all = append(all, s.Address)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func pick(t *testing.T, p *Pool, tried ...*Endpoint) *Endpoint {
	t.Helper()
	e, err := p.Pick(t.Context(), tried)
	if err != nil {
		t.Fatalf("Pick: %v", err)
	}
	return e
}

// TestPickLeast: a request goes where the fewest are in flight, and equals take
// turns.
func TestPickLeast(t *testing.T) {
	p := poolOf(t, Options{}, "http://192.0.2.1", "http://192.0.2.2:81", "https://192.0.2.3")
	if got := p.addressesInUse(); got != "192.0.2.1:80 192.0.2.2:81 192.0.2.3:443" {
		t.Errorf("addresses %q", got)
	}
	counts := map[string]int{}
	for range 30 {
		counts[pick(t, p).Address]++
	}
	for a, n := range counts {
		if n != 10 {
			t.Errorf("%d of 30 requests in flight at %s, want 10: %v", n, a, counts)
		}
	}
	one := (*p.all.Load())[1]
	one.Release()
	if e := pick(t, p); e != one {
		t.Errorf("picked %s, want %s, which has one less", e.Address, one.Address)
	}
	for range 30 { // one after the other
		e := pick(t, p)
		counts[e.Address]++
		e.Release()
	}
	for a, n := range counts {
		if n < 15 {
			t.Errorf("%d at %s: equals do not take turns: %v", n, a, counts)
		}
	}
	all := *p.all.Load()
	if e := pick(t, p, all[0], all[2]); e != all[1] {
		t.Errorf("picked %v, want the one that was not tried", e)
	}
	if e := pick(t, p, all...); e != nil {
		t.Errorf("picked %v of those that were tried", e)
	}
}

// TestPickHealthy: an address that is ejected is left out until its time, then
// tried by one request at a time; but never are all left out.
func TestPickHealthy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var said []string
		p := poolOf(t, Options{OnState: func(address string, err error) {
			if err != nil {
				address += " away"
			}
			said = append(said, address)
		}}, "http://192.0.2.1", "http://192.0.2.2")
		sick, well := (*p.all.Load())[0], (*p.all.Load())[1]
		sick.failed(time.Now(), true, errAway)
		for range 10 {
			if e := pick(t, p); e != well {
				t.Fatalf("picked %s, which is ejected", e.Address)
			}
		}
		if until := p.States()[0].Until; until.Before(time.Now().Add(time.Second)) {
			t.Errorf("ejected until %v", until)
		}
		well.failed(time.Now().Add(time.Second), true, errAway)
		if e := pick(t, p); e != sick {
			t.Errorf("all are ejected: picked %v, want the one with nothing in flight", e)
		}
		sick.Release()
		well.served()
		time.Sleep(2 * time.Second)
		trial := pick(t, p)
		if trial != sick {
			t.Fatalf("picked %s, want a trial of the one with nothing in flight", trial.Address)
		}
		if e := pick(t, p); e != well {
			t.Errorf("picked %s during a trial", e.Address)
		}
		trial.Release() // its caller has gone
		if e := pick(t, p); e != sick {
			t.Errorf("picked %s, want another trial", e.Address)
		}
		sick.served()
		if e := pick(t, p); e != sick {
			t.Errorf("picked %s, want the one that is back and idle", e.Address)
		}
		if got, want := strings.Join(said, ", "), "192.0.2.1:80 away, 192.0.2.2:80 away, 192.0.2.2:80, 192.0.2.1:80"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}

// TestPickAllEjected: they share the load, whichever is tried first.
func TestPickAllEjected(t *testing.T) {
	p := poolOf(t, Options{}, "http://192.0.2.1", "http://192.0.2.2", "http://192.0.2.3")
	for i, e := range *p.all.Load() {
		e.failed(time.Now().Add(time.Duration(i)*time.Hour), true, errAway)
	}
	for range 30 {
		pick(t, p)
	}
	for _, s := range p.States() {
		if s.InFlight != 10 {
			t.Errorf("%d of 30 requests at %s, want 10", s.InFlight, s.Address)
		}
	}
}

// TestParse: a target that cannot be meant is refused.
func TestParse(t *testing.T) {
	for _, text := range []string{"http://app:3000", "https://app/base", "h2c://[::1]:80", "dns+srv://_http._tcp.app"} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "app:3000", "ftp://app", "http://", "http://:80", "http://app:", "http://u:p@app", "http://app?x", "http://app#x", "dns+srv://app:80", "http://app:0", "http://app:99999", "http://a b"} {
		if u, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, u)
		}
	}
}

// TestUnsent: errors tell whether the upstream may have seen a request.
func TestUnsent(t *testing.T) {
	closes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}))
	defer closes.Close()
	foreign := httptest.NewTLSServer(http.NotFoundHandler()) // of an authority that is not trusted
	foreign.Config.ErrorLog = nil
	defer foreign.Close()
	dead := "http://" + clitest.Vacant(t)
	var said atomic.Int32
	for to, want := range map[string]bool{closes.URL: false, foreign.URL: true, dead: true} {
		p := poolOf(t, Options{OnState: func(string, error) { said.Add(1) }}, to)
		e := pick(t, p)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
		_, err := e.RoundTrip(r)
		e.Release()
		if err == nil || errors.As(err, new(*Unsent)) != want {
			t.Errorf("%s: %T %v; unsent should be %v", to, err, err, want)
		}
		if got := !p.States()[0].Until.IsZero(); got != want {
			t.Errorf("%s: ejected %v, want %v", to, got, want)
		}
	}
	if said.Load() != 2 {
		t.Errorf("%d addresses were said to be away, want 2", said.Load())
	}
}

// TestCloseInUse: the connection of a request that begins while its Pool is closed, or
// while its address is dropped, ends with the request, not when it has been idle for long.
func TestCloseInUse(t *testing.T) {
	ended := make(chan struct{}, 2)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			ended <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	for what, retire := range map[string]func(*Pool){"closed": (*Pool).Close, "dropped": func(p *Pool) { p.put(nil) }} {
		p := poolOf(t, Options{}, server.URL)
		e := pick(t, p)
		retire(p)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
		a, err := e.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			t.Error(err)
		}
		a.Body.Close()
		e.Release()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the connection is kept", what)
		}
	}
}
