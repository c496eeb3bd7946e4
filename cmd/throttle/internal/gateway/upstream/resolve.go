package upstream

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lookup resolves names, as net.Resolver does.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// system is net.DefaultResolver at the time of use.
type system struct{}

func (system) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}

func (system) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	return net.DefaultResolver.LookupSRV(ctx, service, proto, name)
}

const (
	srv = "dns+srv" // the scheme
	// every is how often names are resolved while there are requests; after a
	// failure of an address again, but not within soon.
	every = 10 * time.Second
	soon  = time.Second
	// patience bounds one resolution.
	patience = 5 * time.Second
)

// place is an address of a target.
type place struct {
	target  *url.URL
	address string
}

// literal returns the places of targets that are all addresses already.
func (p *Pool) literal() (all []place, ok bool) {
	for _, t := range p.targets {
		a, err := netip.ParseAddr(t.Hostname())
		if err != nil || t.Scheme == srv {
			return nil, false
		}
		all = append(all, place{t, net.JoinHostPort(a.String(), portOf(t))})
	}
	return all, true
}

func portOf(t *url.URL) string {
	switch {
	case t.Port() != "":
		return t.Port()
	case t.Scheme == "https":
		return "443"
	}
	return "80"
}

// stale has names resolved soon.
func (p *Pool) stale() {
	next := time.Now().Add(soon).UnixNano()
	if due := p.due.Load(); due > next && due != 1<<63-1 {
		p.due.CompareAndSwap(due, next)
	}
}

// resolve starts a resolution if one is due and none runs, and returns a channel that is
// closed at the end of the one that runs, at once if there is none.
func (p *Pool) resolve(now time.Time) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resolving != nil {
		return p.resolving
	}
	done := make(chan struct{})
	if p.due.Load() > now.UnixNano() {
		close(done)
		return done
	}
	p.resolving = done
	p.due.Store(now.Add(every).UnixNano())
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		found, err := p.lookup(ctx)
		if err != nil {
			p.say(nil, err)
		}
		p.mu.Lock()
		p.put(found)
		if len(*p.all.Load()) == 0 {
			p.due.Store(time.Now().Add(soon).UnixNano())
		}
		p.restLocked()
		p.resolving = nil
		p.mu.Unlock()
		close(done)
	}()
	return done
}

// Remember takes the addresses that old knows of the same targets, which count until they
// are resolved: longer, where no name server answers. It reports whether there are any.
func (p *Pool) Remember(old *Pool) bool {
	var all []place
	for _, e := range *old.all.Load() {
		for _, t := range p.targets {
			switch {
			case t.Scheme == srv && e.URL.Fragment == t.Host && e.URL.Path == t.Path:
				all = append(all, place{e.URL, e.Address})
			case *e.URL == *t:
				all = append(all, place{t, e.Address})
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(all) > 0 && len(*p.all.Load()) == 0 {
		p.put(all)
		return true
	}
	return false
}

// lookup returns the places of all targets. A target that cannot be resolved
// keeps those that it has; err is that of the last such one. All are resolved at once:
// one whose name server does not answer takes all the time that there is.
func (p *Pool) lookup(ctx context.Context) (all []place, err error) {
	found, failed := make([][]place, len(p.targets)), make([]error, len(p.targets))
	var asking sync.WaitGroup
	for i, t := range p.targets {
		asking.Go(func() { found[i], failed[i] = p.places(ctx, t) })
	}
	asking.Wait()
	for i, t := range p.targets {
		all = append(all, found[i]...)
		if failed[i] == nil {
			continue
		}
		err = failed[i]
		for _, e := range *p.all.Load() {
			if e.pool == p && e.of(t) {
				all = append(all, place{e.URL, e.Address})
			}
		}
	}
	return all, err
}

// of reports whether e was found for t, which for SRV is another URL.
func (e *Endpoint) of(t *url.URL) bool {
	return e.URL == t || e.URL.Fragment == t.Host && t.Scheme == srv
}

func (p *Pool) places(ctx context.Context, t *url.URL) ([]place, error) {
	if t.Scheme != srv {
		return p.addresses(ctx, t, t.Hostname(), portOf(t))
	}
	_, records, err := p.o.Lookup.LookupSRV(ctx, "", "", t.Hostname())
	if err != nil {
		return nil, err
	}
	var all []place
	for _, r := range records { // the lowest priority is the first; weights do not matter
		if r.Priority != records[0].Priority {
			break
		}
		host, port := strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))
		to := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: t.Path, RawPath: t.RawPath, Fragment: t.Host}
		found, failed := p.addresses(ctx, to, host, port)
		if failed != nil {
			err = failed
		}
		all = append(all, found...)
	}
	if len(all) > 0 {
		err = nil
	}
	return all, err
}

// addresses returns the IPv4 addresses of a host, or if it has none the others:
// one that has both is one machine.
func (p *Pool) addresses(ctx context.Context, t *url.URL, host, port string) ([]place, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []place{{t, net.JoinHostPort(a.String(), port)}}, nil
	}
	found, err := p.o.Lookup.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var four, six []place
	for _, a := range found {
		a = a.Unmap()
		one := place{t, net.JoinHostPort(a.String(), port)}
		if a.Is4() {
			four = append(four, one)
		} else {
			six = append(six, one)
		}
	}
	if len(four) > 0 {
		return four, nil
	}
	return six, nil
}

// put makes found the addresses in use; those that stay keep their state. With
// p.mu held, or before p is shared.
func (p *Pool) put(found []place) {
	old := *p.all.Load()
	var all []*Endpoint
	for _, f := range found[:min(len(found), maxEndpoints)] {
		same := func(e *Endpoint) bool {
			return e.Address == f.address && e.URL.Scheme == f.target.Scheme && e.URL.Host == f.target.Host && e.URL.Path == f.target.Path
		}
		if slices.ContainsFunc(all, same) {
			continue
		}
		if i := slices.IndexFunc(old, same); i >= 0 {
			all = append(all, old[i])
			continue
		}
		all = append(all, newEndpoint(p, f.target, f.address))
	}
	p.all.Store(&all)
	for _, e := range old {
		if !slices.Contains(all, e) {
			e.retire()
		}
	}
	if p.closed { // meanwhile
		for _, e := range all {
			e.retire()
		}
	}
}
