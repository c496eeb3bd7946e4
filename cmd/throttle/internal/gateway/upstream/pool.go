// Package upstream chooses, among the addresses of the services behind a proxy,
// the one for each request: load balancing by the fewest requests in flight,
// passive health checks, and DNS that is resolved again and again.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Options are how a Pool reaches its upstreams.
type Options struct {
	// Timeout bounds the wait for the header of an answer, from the end of the
	// request. If zero, a minute.
	Timeout time.Duration
	// TLS is for targets by https. ServerName, if empty, is the host of each. If
	// nil, the authorities of the system count.
	TLS *tls.Config
	// Lookup resolves names. If nil, net.DefaultResolver does.
	Lookup Lookup
	// OnState is called when an address is ejected, with the error, and when it
	// is back, with nil; and with an empty address when names cannot be resolved.
	// If nil, nothing is called.
	OnState func(address string, err error)
	// Files bounds the connections, together with those of other Pools. If nil, nothing does.
	Files *Files
	// Transport sends the requests, with no connection of the Pool's, as to measure
	// what else a request costs. If nil, each address has connections of its own.
	Transport http.RoundTripper
}

// Pool holds the addresses of some targets. It is safe for concurrent use. It
// starts a goroutine, which ends by itself within 5 s, when names are to be
// resolved; see Close.
type Pool struct {
	targets     []*url.URL
	o           Options
	next        atomic.Uint32 // where the search begins, so that equals take turns
	all         atomic.Pointer[[]*Endpoint]
	multiplexes atomic.Bool  // the last answer by TLS came by HTTP/2
	due         atomic.Int64 // unix nanoseconds at which names are resolved again; 0: at once

	mu        sync.Mutex    // guards what follows
	resolving chan struct{} // closed at the end of a resolution; nil if there is none
	closed    bool
}

const (
	maxTargets   = 64
	maxEndpoints = 1000
)

// ErrNoAddress says that no name could be resolved.
var ErrNoAddress = errors.New("upstream: no address is known")

// Parse checks a target: http://, https://, h2c:// or dns+srv://, with a host and
// perhaps a path.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "h2c", srv}, u.Scheme) ||
		u.Hostname() == "" || u.Scheme == srv && u.Port() != "":
		return nil, errors.New("must be like http://HOST:PORT or https://HOST, h2c://HOST:PORT or dns+srv://NAME" + words.Brackets(text))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must have no user, no query and no fragment")
	case strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("has no port behind the colon")
	case words.BadPort(u) != "":
		return nil, errors.New(words.BadPort(u))
	}
	return u, nil
}

// New returns a Pool of 1 to 64 targets, which Parse reads. No name is resolved
// before the first Pick.
func New(targets []string, o Options) (*Pool, error) {
	if len(targets) == 0 || len(targets) > maxTargets {
		return nil, fmt.Errorf("%d targets: must be 1 to %d", len(targets), maxTargets)
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Lookup == nil {
		o.Lookup = system{}
	}
	p := &Pool{o: o}
	for _, text := range targets {
		u, err := Parse(text)
		if err != nil {
			return nil, err
		}
		p.targets = append(p.targets, u)
	}
	p.all.Store(new([]*Endpoint))
	if fixed, ok := p.literal(); ok {
		p.put(fixed)
		p.due.Store(1<<63 - 1)
	}
	return p, nil
}

// DialTimeout bounds the wait for a connection.
func (p *Pool) DialTimeout() time.Duration { return min(p.o.Timeout, 5*time.Second) }

// Pick returns the address with the fewest requests in flight, of those that are
// healthy and not in tried; if none is, of those that are ejected. It must be released.
// The error is ErrNoAddress or that of ctx; nil is returned without one where
// all were tried.
func (p *Pool) Pick(ctx context.Context, tried []*Endpoint) (*Endpoint, error) {
	now := time.Now()
	all := *p.all.Load()
	if len(all) == 0 || p.due.Load() <= now.UnixNano() {
		done := p.resolve(now)
		if len(all) == 0 {
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			all = *p.all.Load()
		}
	}
	if len(all) == 0 {
		return nil, ErrNoAddress
	}
	e := p.least(all, tried, now)
	if e != nil {
		e.inFlight.Add(1)
	}
	return e, nil
}

// least chooses. Where all are ejected they share the load: on one of them alone
// it would be too much.
func (p *Pool) least(all, tried []*Endpoint, now time.Time) *Endpoint {
	var best, last *Endpoint // last: of those that are ejected
	from := 0
	if len(all) > 1 {
		from = int(p.next.Add(1) % uint32(len(all)))
	}
	for i := range all {
		e := all[(from+i)%len(all)]
		switch {
		case slices.Contains(tried, e):
		case !e.free(now):
			if last == nil || e.inFlight.Load() < last.inFlight.Load() {
				last = e
			}
		case best == nil || e.inFlight.Load() < best.inFlight.Load():
			best = e
		}
	}
	if best == nil {
		return last
	}
	if best.out.Load() != 0 && !best.trial.CompareAndSwap(false, true) && last != nil {
		return last
	}
	return best
}

// State is the state of an address.
type State struct {
	// Target is the target that it was found for, and Address is HOST:PORT.
	Target, Address string
	// InFlight is how many requests it serves now.
	InFlight int64
	// Until is when it is tried again, if it is ejected. Zero if it is healthy.
	Until time.Time
}

// States returns the state of each address.
func (p *Pool) States() []State {
	var all []State
	for _, e := range *p.all.Load() {
		s := State{Target: e.URL.String(), Address: e.Address, InFlight: e.inFlight.Load()}
		if out := e.out.Load(); out != 0 {
			s.Until = time.Unix(0, out)
		}
		all = append(all, s)
	}
	return all
}

// Shares reports whether requests share connections, as far as is known: all targets speak
// HTTP/2.
func (p *Pool) Shares() bool {
	for _, u := range p.targets {
		if u.Scheme != "h2c" && (u.Scheme != "https" || !p.multiplexes.Load()) {
			return false
		}
	}
	return true
}

// Spare closes the connections that carry no request.
func (p *Pool) Spare() {
	for _, e := range *p.all.Load() {
		e.transport.CloseIdleConnections()
	}
}

// Close closes the connections that are idle; those in use are closed at the end of
// the last request. Requests may still be sent; nothing is resolved any more, unless no
// address is known yet.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.restLocked()
	for _, e := range *p.all.Load() {
		e.retire()
	}
}

// restLocked has nothing resolved any more once the Pool is closed and knows an address.
func (p *Pool) restLocked() {
	if p.closed && len(*p.all.Load()) > 0 {
		p.due.Store(1<<63 - 1)
	}
}

func (p *Pool) say(e *Endpoint, err error) {
	if p.o.OnState == nil {
		return
	}
	address := ""
	if e != nil {
		address = e.Address
	}
	p.o.OnState(address, err)
}
