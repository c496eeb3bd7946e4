package egress

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// api is an API in use.
type api struct {
	API
	name    string
	base    *url.URL
	salt    [16]byte // of the digests of accounts
	group   throttle.Group
	counter throttle.Counter
	// plain sends requests, upgrades those that ask for another protocol, by HTTP/1.1.
	// They share the group.
	plain, upgrades *throttlehttp.Transport
	store           store.Store
	log             *slog.Logger
	may             func(time.Time) bool // log
	told            func(throttle.Event) // nil: not
}

// newAPI checks an API and makes what sends its requests.
func (p *Proxy) newAPI(name string, c API) (*api, error) {
	a, path := &api{API: c, name: name, log: p.log, may: p.lines.May, told: p.cfg.OnEvent}, "apis."+name
	if what := CheckName(name); what != "" {
		return nil, flawf("apis."+words.Quote(name), "%s", what)
	}
	var what string
	if a.base, what = parseURL(c.URL); what != "" {
		return nil, flawf(path+".url", "%s: %s", words.BadURL(c.URL), what)
	}
	if c.Account != "" && !httpguts.ValidHeaderFieldName(c.Account) {
		return nil, flawf(path+".account", "%s: must be the name of a header field, as Authorization", words.Quote(c.Account))
	}
	a.Account = textproto.CanonicalMIMEHeaderKey(c.Account)
	if !c.Rate.Unlimited() && (c.Rate.Kind != limit.TokenBucket || c.Rate.Count <= 0) {
		return nil, flawf(path+".rate", "must be a rate above zero, as 4/s or 100/min burst 10")
	}
	if c.Fleet && (p.cfg.Store == nil || c.Rate.Unlimited()) {
		return nil, flawf(path+".fleet", "shares a rate that is known, in a store; write both")
	}
	a.store, a.MaxWait = p.cfg.Store, cmp.Or(c.MaxWait, time.Minute)
	var dialect *signal.Dialect
	if c.Dialect != "" {
		var ok bool
		if dialect, ok = signal.Named(c.Dialect); !ok {
			return nil, flawf(path+".dialect", "%s: is not known; %s", words.Quote(c.Dialect), words.Meant(c.Dialect, signal.Names()))
		}
	}
	if !c.Fleet { // the store has the digests of all processes
		rand.Read(a.salt[:])
	}
	a.group.New = a.throttle
	transport := func(protocols ...func(*http.Protocols)) *throttlehttp.Transport {
		return &throttlehttp.Transport{
			Base: a.dials(p.cfg.Timeout, protocols...), Name: a.account, Throttles: &a.group,
			Dialect: func(*http.Request) *signal.Dialect { return dialect },
		}
	}
	a.plain = transport(func(all *http.Protocols) { all.SetHTTP2(true) })
	a.upgrades = transport()
	return a, nil
}

// dials makes what opens connections. It goes by no variable of the environment: one that
// names this proxy would send its requests back to it.
func (a *api) dials(timeout time.Duration, protocols ...func(*http.Protocols)) *http.Transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, Control: a.guard}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := c.(*net.TCPConn); ok {
				return &line{TCPConn: tcp}, nil
			}
			return c, err
		}, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: timeout,
		ExpectContinueTimeout: time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConns: 256, MaxIdleConnsPerHost: 256,
		MaxResponseHeaderBytes: 1 << 20, Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}, // a connection that is lost is noticed
	}
	t.Protocols.SetHTTP1(true)
	for _, set := range protocols {
		set(t.Protocols)
	}
	return t
}

// account is the name of the Throttle of a request: that of the API, and a digest of the
// account. Names are on the page and in the log, and what the field holds is secret.
func (a *api) account(r *http.Request) string {
	if a.Account == "" {
		return a.name
	}
	values := r.Header[a.Account]
	if len(values) == 0 {
		return a.name + " none"
	}
	sum := sha256.Sum256(append(a.salt[:], strings.Join(values, "\x00")...))
	return a.name + " " + hex.EncodeToString(sum[:8])
}

// weights divide the limit of an account between the requests that wait, by their
// priority.
var weights = map[load.Priority]float64{load.Low: 0.25, load.High: 4, load.Critical: 16}

// throttle makes the Throttle of an account.
func (a *api) throttle(name string) *throttle.Throttle {
	t := &throttle.Throttle{MaxInFlight: a.MaxInFlight, Weights: weights, OnEvent: a.onEvent(throttle.Log(a.log.With("api", name)))}
	switch {
	case a.Fleet:
		t.Fleet = throttle.Fleet{Store: a.store, Key: "egress:" + name, Limit: a.Rate}
	case !a.Rate.Unlimited():
		t.Control = &pace.Fixed{Rate: float64(a.Rate.Count) / a.Rate.Period.Seconds(), Burst: int(min(a.Rate.Burst, 1<<20))}
	}
	return t
}

// onEvent counts events, and logs tries that the API did not serve, at most ten a second.
// Calls that are given up are logged by Proxy.fail, which knows whether they may have been
// executed.
func (a *api) onEvent(log func(throttle.Event)) func(throttle.Event) {
	return func(e throttle.Event) {
		a.counter.OnEvent(e)
		if a.told != nil {
			a.told(e)
		}
		refused := e.Report.Verdict == pace.Throttled || e.Report.Verdict == pace.Failed
		if e.Kind == throttle.Ends && refused && a.may(e.At) {
			log(e)
		}
	}
}

// guard is the Control of a net.Dialer: it refuses private addresses, whatever a name
// resolves to.
func (a *api) guard(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil && a.permits(to.Addr().Unmap().WithZone("")) {
		return nil
	}
	return &throttle.Error{Reason: errPrivate, Err: fmt.Errorf("%s resolves to %s; if that is right, permit it (private)", a.base.Hostname(), address)} // of this type, so that it is not retried
}

// permits reports whether a connection to an address is allowed.
func (a *api) permits(to netip.Addr) bool {
	if a.Private || intercept.Public(to) {
		return true
	}
	host := a.base.Hostname()
	named, err := netip.ParseAddr(host)
	return err == nil && named.Unmap() == to || strings.EqualFold(host, "localhost") && to.IsLoopback()
}
