package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestResolve: names are resolved again, addresses that stay keep their state,
// and while no name server answers the old ones are used.
func TestResolve(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{hosts: map[string][]string{"app": {"192.0.2.1", "192.0.2.2", "2001:db8::1"}}}
		p := poolOf(t, Options{Lookup: n}, "http://app:3000")
		kept := pick(t, p)
		if got := p.addressesInUse(); got != "192.0.2.1:3000 192.0.2.2:3000" {
			t.Errorf("at first %q; want both, and no IPv6 as there is IPv4", got)
		}
		n.set("app", strings.TrimSuffix(kept.Address, ":3000"), "192.0.2.3")
		time.Sleep(9 * time.Second)
		pick(t, p)
		synctest.Wait()
		if n.asked != 1 {
			t.Errorf("resolved %d times within 9 s, want 1", n.asked)
		}
		time.Sleep(2 * time.Second)
		pick(t, p) // starts it
		synctest.Wait()
		if got := p.addressesInUse(); !strings.Contains(got, "192.0.2.3:3000") || !strings.Contains(got, kept.Address) || len(p.States()) != 2 {
			t.Errorf("after 11 s %q", got)
		}
		if !slices.Contains(*p.all.Load(), kept) {
			t.Error("an address that stays has lost its state")
		}
		n.set("app")
		time.Sleep(time.Minute)
		pick(t, p)
		synctest.Wait()
		if len(p.States()) != 2 {
			t.Errorf("while the name server is away %q, want what was there", p.addressesInUse())
		}
	})
}

// TestResolveAgainSoon: a failure of an address has its name resolved a second
// later, not after ten.
func TestResolveAgainSoon(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{hosts: map[string][]string{"app": {"192.0.2.1"}}}
		p := poolOf(t, Options{Lookup: n}, "http://app")
		pick(t, p).failed(time.Now(), true, errAway)
		n.set("app", "192.0.2.9")
		time.Sleep(1100 * time.Millisecond)
		pick(t, p)
		synctest.Wait()
		if got := p.addressesInUse(); got != "192.0.2.9:80" {
			t.Errorf("%q, want the new address", got)
		}
	})
}

// TestResolveFails: without any address Pick says so, and asks again after a
// second; it ends with its context.
func TestResolveFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{hosts: map[string][]string{}}
		p := poolOf(t, Options{Lookup: n}, "http://app")
		if e, err := p.Pick(t.Context(), nil); e != nil || !errors.Is(err, ErrNoAddress) {
			t.Errorf("Pick: %v, %v", e, err)
		}
		n.set("app", "192.0.2.1")
		time.Sleep(2 * time.Second)
		if e := pick(t, p); e.Address != "192.0.2.1:80" {
			t.Errorf("picked %s", e.Address)
		}
	})
}

// slow is a name server that takes a while.
type slow struct{ *names }

func (s slow) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	time.Sleep(100 * time.Millisecond)
	return s.names.LookupNetIP(ctx, network, host)
}

// TestResolveTogether: all requests that come while a name is resolved for the first time
// wait for its addresses, also after Close, and after a failure.
func TestResolveTogether(t *testing.T) {
	for _, how := range []string{"open", "closed", "failed before"} {
		bubble.Test(t, func(t *testing.T) {
			n := &names{hosts: map[string][]string{}}
			p := poolOf(t, Options{Lookup: slow{n}}, "http://app")
			if how == "failed before" {
				if _, err := p.Pick(t.Context(), nil); !errors.Is(err, ErrNoAddress) {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
			}
			n.set("app", "192.0.2.1")
			asked, began := n.asked, time.Now()
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond)
					if _, err := p.Pick(t.Context(), nil); err != nil || time.Since(began) != 100*time.Millisecond {
						t.Errorf("%s: request %d: %v after %v", how, i, err, time.Since(began))
					}
				})
			}
			if how == "closed" {
				time.Sleep(50 * time.Millisecond)
				p.Close()
			}
			all.Wait()
			if n.asked != asked+1 {
				t.Errorf("%s: resolved %d times, want once", how, n.asked-asked)
			}
		})
	}
}

// TestResolveClosed: a request that comes to a Pool after its Close, as one that waited for
// room while the routes changed, is sent, also if no name was resolved before.
func TestResolveClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{hosts: map[string][]string{"app": {"192.0.2.1"}}}
		p := poolOf(t, Options{Lookup: n}, "http://app")
		p.Close()
		for range 3 {
			if e := pick(t, p); e.Address != "192.0.2.1:80" || !e.retired.Load() {
				t.Errorf("picked %s; retired: %v", e.Address, e.retired.Load())
			}
			time.Sleep(time.Minute)
		}
		if n.asked != 1 {
			t.Errorf("resolved %d times, want once", n.asked)
		}
	})
}

// TestRemember: a Pool that takes the place of another with the same targets begins with
// its addresses, and goes on with them while no name server answers.
func TestRemember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{
			hosts:   map[string][]string{"app": {"192.0.2.1", "192.0.2.2"}, "other": {"192.0.2.3"}, "srv.example": {"192.0.2.4"}},
			records: []*net.SRV{{Target: "srv.example.", Port: 3000}},
		}
		old := poolOf(t, Options{Lookup: n}, "http://app:80/v1", "http://other", "dns+srv://app.example/x")
		pick(t, old)
		n.set("app")
		n.set("srv.example")
		p := poolOf(t, Options{Lookup: n}, "http://app:80/v1", "dns+srv://app.example/x", "http://app:80/v2")
		if !p.Remember(old) {
			t.Error("it remembers nothing")
		}
		const want = "192.0.2.1:80 192.0.2.2:80 192.0.2.4:3000"
		for range 3 {
			pick(t, p)
			synctest.Wait()
			if got := p.addressesInUse(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			time.Sleep(time.Minute)
		}
		n.set("app", "192.0.2.9")
		pick(t, p)
		synctest.Wait()
		if got := p.addressesInUse(); got != "192.0.2.4:3000 192.0.2.9:80 192.0.2.9:80" { // of /v1 and /v2
			t.Errorf("once it answers again %q", got)
		}
		if q := poolOf(t, Options{Lookup: n}, "http://app:81"); q.Remember(old) {
			t.Error("it remembers addresses of another target")
		}
	})
}

// hanging is a name server that answers nothing about the host "hangs".
type hanging struct{ *names }

func (h hanging) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if host == "hangs" {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return h.names.LookupNetIP(ctx, network, host)
}

// TestResolveBesideOneThatHangs: a name of which nothing is heard takes no time from
// those of the other targets, neither at first nor later.
func TestResolveBesideOneThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &names{hosts: map[string][]string{"app": {"192.0.2.1"}}}
		p := poolOf(t, Options{Lookup: hanging{n}}, "http://hangs", "http://app")
		if e := pick(t, p); e.Address != "192.0.2.1:80" {
			t.Errorf("picked %s", e.Address)
		}
		n.set("app", "192.0.2.9")
		time.Sleep(11 * time.Second)
		pick(t, p) // starts it
		time.Sleep(6 * time.Second)
		if got := p.addressesInUse(); got != "192.0.2.9:80" {
			t.Errorf("%q, want the new address", got)
		}
	})
}

// TestResolveSRV: records of the lowest priority count, with their ports.
func TestResolveSRV(t *testing.T) {
	n := &names{
		hosts:   map[string][]string{"a.example.": nil, "a.example": {"192.0.2.1", "192.0.2.2"}, "b.example": {"192.0.2.3"}, "c.example": {"192.0.2.4"}},
		records: []*net.SRV{{Target: "a.example.", Port: 3000, Priority: 1}, {Target: "b.example.", Port: 3001, Priority: 1}, {Target: "c.example.", Port: 1, Priority: 2}},
	}
	p := poolOf(t, Options{Lookup: n}, "dns+srv://web.internal/base")
	e := pick(t, p)
	if got := p.addressesInUse(); got != "192.0.2.1:3000 192.0.2.2:3000 192.0.2.3:3001" {
		t.Errorf("addresses %q", got)
	}
	if e.URL.Scheme != "http" || e.URL.Path != "/base" || !strings.HasPrefix(e.URL.Host, e.URL.Hostname()+":300") {
		t.Errorf("target %s", e.URL)
	}
}
