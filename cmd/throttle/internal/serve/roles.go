package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/admin"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/envoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/throttleenvoy"
	"github.com/throttle-go/throttle/throttleotel"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// openGateway checks what the gateway is to do, and opens its sockets.
func (p *program) openGateway(ctx context.Context) error {
	c, err := Gateway(p.began)
	if err != nil {
		return err
	}
	c.Control, c.Log = p.control, p.log
	if err := checkListeners(p.began); err != nil {
		return err
	}
	for i := range c.Listen {
		l := &c.Listen[i]
		open := p.sockets.Listen
		if p.began.Gateway.Listen[i].ReusePort {
			open = p.sockets.ListenBeside
		}
		if l.Listener, err = open(ctx, l.Addr); err != nil {
			return p.began.Fail(fmt.Sprintf("gateway.listen[%d]", i), "%v", err)
		}
		p.listening = append(p.listening, l.Listener)
	}
	if p.gateway, err = gateway.New(c); err != nil {
		return ofGateway(p.began, err)
	}
	return nil
}

// ofGateway is an error of the gateway with its place in the file.
func ofGateway(f *config.File, err error) error {
	if flaw := (*gateway.Flaw)(nil); errors.As(err, &flaw) {
		return f.Fail("gateway."+flaw.Path, "%s", flaw.What)
	}
	return err
}

// envoyRole is the rate limit service of Envoy.
type envoyRole struct {
	listener net.Listener
	own      *certificate.Files          // nil: none
	quota    *throttleenvoy.QuotaService // nil: none
}

// quotas is the quota service of a file. It asks the store itself: without it, assignments
// go on, which is better than what a Guard could answer.
func (p *program) quotas() *throttleenvoy.QuotaService {
	q := p.began.Envoy.Quota
	if q == nil {
		return nil
	}
	s := &throttleenvoy.QuotaService{
		Rules: p.sources.live(), Store: p.storage.Store, MaxStreams: q.MaxStreams, MaxBuckets: q.MaxBuckets, Idle: q.Idle,
	}
	if p.storage.remote != nil {
		s.Store, s.Shared = p.storage.remote, true
	}
	return s
}

// quotaStats are the numbers of a quota service as metrics.
func quotaStats(s *throttleenvoy.QuotaService) func() throttleotel.Quota {
	return func() throttleotel.Quota { return throttleotel.Quota(s.Stats()) }
}

// openEnvoy opens the socket for Envoy.
func (p *program) openEnvoy(ctx context.Context) (*envoyRole, error) {
	at, role := p.began.Envoy.Listen, &envoyRole{quota: p.quotas()}
	if at.TLS != nil {
		role.own = filesOf(at.TLS)
		role.own.Log, role.own.Every = p.log, time.Second
		if err := role.own.Load(time.Now()); err != nil {
			return nil, p.began.Fail("envoy.listen.tls", "%v", err)
		}
	}
	open := p.sockets.Listen
	if at.ReusePort {
		open = p.sockets.ListenBeside
	}
	var err error
	if role.listener, err = open(ctx, string(at.Address)); err != nil {
		return nil, p.began.Fail("envoy.listen", "%v", err)
	}
	return role, nil
}

// serveEnvoy serves Envoy until ctx ends, and drains.
func (p *program) serveEnvoy(ctx context.Context) error {
	if p.envoy == nil {
		<-ctx.Done()
		return nil
	}
	d := drain(p.began)
	return envoy.New(envoy.Config{
		Control: p.control, Listener: p.envoy.listener, Files: p.envoy.own, Silent: p.began.Envoy.Silent, Refunds: p.began.Envoy.Refunds,
		Delay: d.Delay, Timeout: d.Timeout, Log: p.log, Quota: p.envoy.quota,
	}).Serve(ctx)
}

// adminRole is the listener of operators.
type adminRole struct {
	config   admin.Config
	listener net.Listener
}

// openAdmin opens the listener of operators.
func (p *program) openAdmin(ctx context.Context) (*adminRole, error) {
	a := p.began.Admin
	c := admin.Config{
		Writers: a.Writers, Hosts: a.Hosts, Pprof: a.Pprof, ShowKeys: a.ShowKeys, OTLP: string(a.OTLP), OTLPEvery: a.OTLPEvery,
		Build: build(), Rules: p.sources.live(), Sources: p.sources.all, Stack: p.sources.stack,
		Store: p.storage, Guard: p.storage.guard, Counter: p.counter, Recent: p.recent, Peers: p.peers, Observe: p.observe,
		ReadyNeedsStore: a.Ready == "store", Log: p.log, Journal: &p.journal,
	}
	for _, t := range a.Tokens {
		c.Tokens = append(c.Tokens, admin.Token{Name: t.Name, Secret: string(t.Secret), Write: t.Write})
	}
	if a.Token != "" {
		c.Tokens = append(c.Tokens, admin.Token{Name: "token", Secret: string(a.Token), Write: true})
	}
	if a.ReadToken != "" {
		c.Tokens = append(c.Tokens, admin.Token{Name: "read_token", Secret: string(a.ReadToken)})
	}
	if t := a.Listen.TLS; t != nil {
		files := filesOf(t)
		files.Log = p.log
		if err := files.Load(time.Now()); err != nil {
			return nil, p.began.Fail("admin.listen.tls", "%v", err)
		}
		p.own = files
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: files.Config, ClientAuth: files.Auth()}
	}
	if p.egress != nil {
		c.Callers = p.egress.Page("../")
	}
	if p.envoy != nil {
		c.Quota = p.envoy.quota
	}
	l, err := p.sockets.Listen(ctx, string(a.Listen.Address))
	if err != nil {
		return nil, p.began.Fail("admin.listen", "%v", err)
	}
	return &adminRole{c, l}, nil
}

// serveAdmin serves operators until ctx ends; running ends before, with the drain.
func (p *program) serveAdmin(ctx, running context.Context) error {
	if p.admin == nil {
		<-ctx.Done()
		return nil
	}
	p.admin.config.Drain = running.Done()
	p.admin.config.Reload = func(ctx context.Context) error { // a page of rules may take longer than the drain
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(running, cancel)()
		return p.reload(ctx)
	}
	return admin.Serve(ctx, p.admin.config, p.admin.listener)
}

// observe registers the metrics of what admin does not know.
func (p *program) observe(m *throttleotel.Metrics) error {
	errs := []error{m.InFlight("serve", p.control.InFlight), m.Config("files", p.state), m.Config("certificates", p.certificates)}
	if p.storage.leases != nil {
		errs = append(errs, m.Leases("store", p.storage.leases))
	}
	if p.gateway != nil {
		errs = append(errs, m.Shedders(p.gateway.Shedders))
	}
	if p.envoy != nil && p.envoy.quota != nil {
		errs = append(errs, m.Quota("serve", quotaStats(p.envoy.quota)))
	}
	switch remote := p.storage.remote.(type) {
	case *throttleredis.Store:
		errs = append(errs, m.Redis("store", remote))
	case *throttlesql.Store:
		errs = append(errs, m.SQL("store", remote))
	}
	errs = append(errs, p.observeEgress(m))
	latency, err := m.Latency("serve")
	p.latency.Store(&latency)
	return errors.Join(append(errs, err)...)
}

// flawed is an error as wrong usage, if it is about a file.
func flawed(err error) error {
	if flaw := placed(err); flaw != nil {
		return usage.Error(flaw.Error())
	}
	return err
}

// Check checks what only the roles know: routes, fields, certificates, files that are
// written. It opens no socket and asks no store.
func Check(f *config.File) error {
	if err := checkWrites(f); err != nil {
		return err
	}
	if a := f.Admin; a != nil {
		if err := checkTLS(f, "admin.listen", a.Listen.TLS); err != nil {
			return err
		}
	}
	if e := f.Envoy; e != nil {
		if err := checkTLS(f, "envoy.listen", e.Listen.TLS); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkServer(f, nil), checkEgress(f)); err != nil || f.Gateway == nil {
		return err
	}
	if err := checkListeners(f); err != nil {
		return err
	}
	c, err := Gateway(f)
	if err != nil {
		return err
	}
	_, err = gateway.New(c)
	return ofGateway(f, err)
}

// checkListeners checks the certificates of the sockets of the gateway.
func checkListeners(f *config.File) error {
	for i, s := range f.Gateway.Listen {
		if err := checkTLS(f, fmt.Sprintf("gateway.listen[%d]", i), s.TLS); err != nil {
			return err
		}
	}
	return nil
}

func checkTLS(f *config.File, path string, t *config.TLS) error {
	if t == nil {
		return nil
	}
	if err := filesOf(t).Load(time.Now()); err != nil {
		return f.Fail(path+".tls", "%v", err)
	}
	return nil
}
