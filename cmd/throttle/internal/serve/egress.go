package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/egress"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/throttleotel"
)

// egressRole is the proxy for callers of limited APIs.
type egressRole struct {
	*egress.Proxy
	listener net.Listener
}

// egressOf returns what the egress proxy of a file does, without its Store and its Log.
func egressOf(f *config.File) egress.Config {
	e, d := f.Egress, drain(f)
	c := egress.Config{
		APIs: map[string]egress.API{}, MaxBody: int64(e.MaxBody), MaxRequests: e.MaxRequests, Timeout: e.Timeout,
		Drain: egress.Drain{Delay: d.Delay, Timeout: d.Timeout},
	}
	if i := e.Intercept; i != nil {
		c.Intercept = &egress.Intercept{CA: string(i.CA), Hosts: i.Hosts, Tunnel: i.Tunnel, Token: string(i.Token)}
	}
	for name, a := range e.APIs {
		c.APIs[name] = egress.API{
			URL: string(a.URL), Account: string(a.Account), Dialect: a.Dialect, Rate: limit.Limit(a.Rate), Fleet: a.Fleet,
			MaxInFlight: a.MaxInFlight, MaxWait: a.Wait, Private: a.Private,
		}
	}
	return c
}

// ofEgress is an error of the egress proxy with its place in the file.
func ofEgress(f *config.File, err error) error {
	if flaw := (*egress.Flaw)(nil); errors.As(err, &flaw) {
		return f.Fail("egress."+flaw.Path, "%s", flaw.What)
	}
	return err
}

// checkEgress checks what the egress proxy is to do.
func checkEgress(f *config.File) error {
	if f.Egress == nil {
		return nil
	}
	c := egressOf(f)
	c.Store = new(memory.Store) // is not asked
	proxy, err := egress.New(c)
	if err == nil {
		err = proxy.Load(time.Now())
	}
	return ofEgress(f, err)
}

// openEgress opens the socket of the egress proxy.
func (p *program) openEgress(ctx context.Context) (*egressRole, error) {
	c := egressOf(p.began)
	c.Store, c.Log = p.storage, p.log
	proxy, err := egress.New(c)
	if err == nil {
		err = proxy.Load(time.Now())
	}
	if err != nil {
		return nil, ofEgress(p.began, err)
	}
	l, err := p.sockets.Listen(ctx, string(p.began.Egress.Listen))
	if err != nil {
		return nil, p.began.Fail("egress.listen", "%v", err)
	}
	if at, err := netip.ParseAddrPort(l.Addr().String()); err == nil && !at.Addr().IsLoopback() {
		p.log.Warn("other machines may call the APIs of egress through this one", "listen", at.String())
	}
	return &egressRole{proxy, l}, nil
}

// reloadEgress reads the authority for CONNECT again.
func (p *program) reloadEgress() error {
	if p.egress == nil {
		return nil
	}
	return ofEgress(p.began, p.egress.Load(time.Now()))
}

// serveEgress serves the callers of APIs until ctx ends, and drains.
func (p *program) serveEgress(ctx context.Context) error {
	if p.egress == nil {
		<-ctx.Done()
		return nil
	}
	return p.egress.Serve(ctx, p.egress.listener)
}

// observeEgress registers the metrics of the calls of each API.
func (p *program) observeEgress(m *throttleotel.Metrics) error {
	if p.egress == nil {
		return nil
	}
	var errs []error
	for _, name := range p.egress.Names() {
		group, counter := p.egress.Observed(name)
		errs = append(errs, m.Calls(name, counter), m.Group(name, group))
	}
	return errors.Join(errs...)
}
