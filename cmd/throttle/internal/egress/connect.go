package egress

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Intercept lets callers send CONNECT, as programs with HTTPS_PROXY do, and says to which hosts.
type Intercept struct {
	// CA is the directory of an authority, as 'throttle ca' makes it.
	CA string
	// Authority is one that is in use already, in place of CA. If nil, Load reads that of CA.
	Authority *intercept.Authority
	// Hosts are those whose requests are paced, each that of an API by https: HOST, or
	// HOST:PORT where that is not 443. If empty, those of all such APIs.
	Hosts []string
	// Tunnel are other targets, to which bytes pass unseen, see intercept.ParsePattern. If
	// empty, none is reached.
	Tunnel []string
	// Token is the password that all requests must have, see intercept.Proxy. If empty,
	// none is asked for.
	Token string
}

// newConnects makes what serves CONNECT. It reads no file.
func (p *Proxy) newConnects(c *Intercept) (x *intercept.Proxy, err error) {
	x = &intercept.Proxy{
		Authority: cmp.Or(c.Authority, &intercept.Authority{Dir: c.CA, Log: p.cfg.Log}), Next: p, Token: c.Token, MaxConns: maxConns, MaxHeader: maxHeader,
		MaxStreams: maxStreams, Log: p.cfg.Log,
	}
	if x.Hosts, err = p.interceptable(c.Hosts); err != nil {
		return nil, err
	}
	if p.cfg.Open {
		x.Tunnel = intercept.Everything()
	}
	for i, text := range c.Tunnel {
		pattern, err := intercept.ParsePattern(text)
		if err != nil {
			return nil, flawf(fmt.Sprintf("intercept.tunnel[%d]", i), "%s: %v", words.Quote(text), err)
		}
		x.Tunnel = append(x.Tunnel, pattern)
	}
	return x, nil
}

// interceptable reads hosts, each of which must be that of an API by https. If there are
// none, it returns those of all.
func (p *Proxy) interceptable(texts []string) (all []intercept.Target, err error) {
	apis := p.targets()
	const none = "no API has an https URL, so there is nothing to intercept"
	switch {
	case len(apis) == 0 && len(texts) > 0:
		return nil, flawf("intercept.hosts", none)
	case len(apis) == 0:
		return nil, flawf("intercept", none)
	case len(texts) == 0:
		for _, t := range apis {
			if _, err := intercept.ParsePermitted(t.Authority()); err != nil {
				return nil, flawf("intercept", "%s: %v", t.Authority(), err)
			}
		}
		return apis, nil
	}
	for i, text := range texts {
		path := fmt.Sprintf("intercept.hosts[%d]", i)
		t, err := intercept.ParsePermitted(text)
		switch {
		case err != nil:
			return nil, flawf(path, "%s: %v", words.Quote(text), err)
		case !slices.Contains(apis, t):
			return nil, flawf(path, "%s: is the host of no API by https; they are %s", words.Quote(text), authorities(apis))
		}
		all = append(all, t)
	}
	return all, nil
}

// targets are those of the APIs by https.
func (p *Proxy) targets() (all []intercept.Target) {
	for _, a := range p.apis {
		if a.base.Scheme != "https" {
			continue
		}
		if t, err := intercept.ParseHost(a.base.Host); err == nil && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// authorities writes targets for people.
func authorities(all []intercept.Target) string {
	var texts []string
	for _, t := range all {
		texts = append(texts, t.Authority())
	}
	return strings.Join(texts, ", ")
}

// Load reads the authority for CONNECT: before Serve, and again where it was renewed. The
// error is a *Flaw, and then what was read before stays. Without an Intercept it does
// nothing.
func (p *Proxy) Load(now time.Time) error {
	if p.connects == nil {
		return nil
	}
	var hosts []string
	for _, t := range p.connects.Hosts {
		hosts = append(hosts, t.Host)
	}
	a := p.connects.Authority
	var err error
	if p.cfg.Intercept.Authority == nil {
		err = a.Load(now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return flawf("intercept.ca", "there is no CA in %s; run 'throttle ca -dir %s -hosts %s'", a.Dir, a.Dir, strings.Join(hosts, ","))
	}
	if err == nil {
		err = a.Covers(hosts, now)
	}
	if err != nil {
		return flawf("intercept.ca", "%v", err)
	}
	return nil
}

// handler serves all requests.
func (p *Proxy) handler() http.Handler {
	if p.connects != nil {
		return p.connects
	}
	return p
}
