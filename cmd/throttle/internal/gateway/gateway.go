package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// Gateway is a reverse proxy with admission control. It is safe for concurrent
// use.
type Gateway struct {
	cfg     Config
	control *admit.Control
	log     *slog.Logger
	names   []string // of the fields of Identity and Priority
	reverse *httputil.ReverseProxy
	start   time.Time
	beside  chan struct{} // holds one for each stream that is beside the first of its connection
	shares  shares        // of these
	several atomic.Bool   // the routes have several upstreams
	files   upstream.Files
	lines   operate.Sparing // of the log
	counts

	routes   atomic.Pointer[[]*route]
	swapping sync.Mutex // guards what follows, and one Swap after the other
	own      []*certificate.Files
	draining atomic.Bool
	tunnels  atomic.Int64 // connections that were upgraded
}

// New returns a Gateway, whose fields that are names are put into their canonical
// form. The error is a *Flaw. Nothing is opened before Serve.
func New(c Config) (*Gateway, error) {
	g := &Gateway{cfg: c, control: c.Control, log: c.Log, start: time.Now()}
	g.lines.Most = limit.Limit{Count: 1, Period: time.Second}
	if g.control == nil {
		g.control = new(admit.Control)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if len(c.Listen) == 0 || len(c.Listen) > maxListen {
		return nil, flawf("listen", "%d sockets: must be 1 to %d", len(c.Listen), maxListen)
	}
	for i, b := range []*Believed{&g.cfg.Identity, &g.cfg.Priority} {
		if b.Header == "" {
			continue
		}
		name := []string{"identity", "priority"}[i]
		b.Header = http.CanonicalHeaderKey(b.Header)
		if len(b.From) == 0 {
			return nil, flawf(name+".from", "is missing: write the networks of the proxies that set %s", b.Header)
		}
		if !states(b.Header) || slices.Contains(g.names, b.Header) {
			return nil, flawf(name+".header", "%q: must be a field of its own, as X-Customer", b.Header)
		}
		g.names = append(g.names, b.Header)
	}
	if err := cmp.Or(g.cfg.everybody(), g.cfg.nowhere()); err != nil {
		return nil, err
	}
	files := openFiles()
	conns := g.cfg.mostConns(files) * len(c.Listen)
	g.beside = make(chan struct{}, besides(conns, files))
	g.files.Most, g.files.Spare = int64(conns+cap(g.beside)), g.spare
	g.reverse = g.proxy()
	return g, g.Swap(c.Routes)
}

// everybody refuses networks that trust everybody, as rules do, and IPv4 networks
// in the form of IPv6, in which no address is.
func (c *Config) everybody() error {
	lists := []trusted{{"proxies", c.Proxies.Trusted, "address"}, {"identity.from", c.Identity.From, c.Identity.Header}, {"priority.from", c.Priority.From, c.Priority.Header}}
	for i, l := range c.Listen {
		lists = append(lists, trusted{"listen[" + strconv.Itoa(i) + "].proxy_protocol", l.ProxyProtocol, "address"})
	}
	for _, l := range lists {
		_, err := rules.Compile(rules.Set{Proxies: rules.Proxies{Trusted: l.networks}})
		if flaw := (*rules.Error)(nil); errors.As(err, &flaw) {
			what := strings.ReplaceAll(flaw.What, "their address", "their "+l.says)
			return &Flaw{l.path + strings.TrimPrefix(flaw.Path, "proxies.trusted"), what}
		}
	}
	return nil
}

// nowhere refuses networks for a socket whose connections come from none: no header of the
// PROXY protocol would be read there.
func (c *Config) nowhere() error {
	for i, l := range c.Listen {
		if l.Listener != nil && l.Listener.Addr().Network() == "unix" && len(l.ProxyProtocol) > 0 {
			return flawf("listen["+strconv.Itoa(i)+"].proxy_protocol", "a connection to a unix socket comes from no network; listen on HOST:PORT, or leave it out")
		}
	}
	return nil
}

// trusted are networks that are trusted to say something of clients.
type trusted struct {
	path     string
	networks rules.Networks
	says     string
}

// Swap puts other routes into use: all of them, or none if there is a *Flaw.
// Requests that have begun end as they began. Routes to the same upstreams keep
// their connections, their health and what load shedding has learnt.
func (g *Gateway) Swap(to []Route) error {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	if len(to) == 0 || len(to) > maxRoutes {
		return flawf("routes", "%d routes: must be 1 to %d", len(to), maxRoutes)
	}
	var old, all []*route
	if in := g.routes.Load(); in != nil {
		old = *in
	}
	for i, r := range to {
		t, err := g.route(i, r, slices.Concat(old, all))
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	g.routes.Store(&all)
	for _, o := range old {
		o.watch.retire()
	}
	kept := pools(all)
	g.several.Store(len(kept) > 1)
	for _, p := range pools(old) {
		if !slices.Contains(kept, p) {
			p.Close()
		}
	}
	return nil
}

// pools are those of routes.
func pools(of []*route) (all []*upstream.Pool) {
	for _, t := range of {
		for _, p := range []*upstream.Pool{t.pool, t.instead} {
			if p != nil && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// Upstreams returns the state of each address that is known, of all routes.
func (g *Gateway) Upstreams() (all []upstream.State) {
	for _, p := range pools(*g.routes.Load()) {
		all = append(all, p.States()...)
	}
	return all
}

// Shedders returns those of the routes in use, by Match. Routes that share one are
// there once, by the first.
func (g *Gateway) Shedders() map[string]*admit.Shedder {
	all, seen := map[string]*admit.Shedder{}, map[*admit.Shedder]bool{}
	for _, t := range *g.routes.Load() {
		name := cmp.Or(t.Match, "/*")
		if _, taken := all[name]; t.shed != nil && !taken && !seen[t.shed] {
			all[name], seen[t.shed] = t.shed, true
		}
	}
	return all
}

// said logs that an upstream is away or back.
func (g *Gateway) said(address string, err error) {
	switch {
	case address == "":
		g.log.Error("the names of upstreams cannot be resolved", "err", err)
	case err != nil:
		g.log.Warn("an upstream is left out for a while", "upstream", address, "err", err)
	default:
		g.log.Info("an upstream is back", "upstream", address)
	}
}

// ServeHTTP serves a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, g: g, trailer: r.Trailer, old: !r.ProtoAtLeast(1, 1)}
	x.chunks = r.ProtoMajor == 1 && !x.old
	x.carried.x = x
	x.carried.Context, x.cancel = context.WithCancel(r.Context())
	if g.cfg.OnServed != nil {
		x.began, x.served = time.Now(), new(Served)
		defer x.tell(r.Method)
	}
	if r.ContentLength != 0 {
		defer x.leave()
	}
	defer x.stop()
	if g.draining.Load() || ambiguous(r) || crowded(r) {
		w.Header()["Connection"] = []string{"close"} // in HTTP/2 it is GOAWAY
	}
	if g.control.Rules != nil {
		x.version = g.control.Rules.Load()
	}
	x.locate(r)
	x.route = g.find(r)
	if status := x.clean(r); status != 0 {
		plain(x, status)
		return
	}
	x.serve(r.WithContext(&x.carried))
}

// ambiguous reports whether a proxy in front may see the end of a request elsewhere: it
// is chunked, and may have had a length too, or it is of HTTP/1.0, and may have been
// chunked, both of which net/http drops without a word. What follows it on its connection
// must not be read then (RFC 9112, 6.1).
func ambiguous(r *http.Request) bool {
	return r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0)
}

// find returns the route of a request, nil if there is none.
func (g *Gateway) find(r *http.Request) *route {
	path := cleaned(r.URL.Path)
	host, known := "", false
	for _, t := range *g.routes.Load() {
		if t.host != nil && !known {
			host, known = hostOf(r.Host), true
		}
		if t.matches(host, path) {
			return t
		}
	}
	return nil
}

// hostOf returns a Host in small letters, without its port and a dot at the end, as the
// rules do: one that they took for another would evade them. An address of IPv6 keeps its
// brackets.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// serve serves a request that is clean.
func (x *exchange) serve(r *http.Request) {
	t := x.route
	switch {
	case t == nil:
		plain(x, http.StatusNotFound)
	case t.below && sneaks(r.URL.Path):
		plain(x, http.StatusBadRequest)
	case t.maxBody > 0 && r.ContentLength > t.maxBody:
		plain(x, http.StatusRequestEntityTooLarge)
	default:
		if t.maxBody > 0 && r.ContentLength != 0 {
			r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, t.maxBody)
		}
		if t.Degrade != nil && t.Degrade(x.version) {
			t.degrade(x, r)
			return
		}
		t.handler.ServeHTTP(x, r)
	}
}

// decided notes that the Control has admitted the request.
func (x *exchange) decided() {
	if x.served != nil {
		x.served.Admission = time.Since(x.began)
	}
}

// tell calls OnServed.
func (x *exchange) tell(method string) {
	s := *x.served
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT":
		s.Method = method
	default:
		s.Method = "OTHER"
	}
	if x.route != nil {
		s.Route = x.route.Match
	}
	s.Status, s.Tries, s.Total = x.status, len(x.tried), time.Since(x.began)
	if s.Tries == 0 {
		s.Admission = s.Total
	}
	x.g.cfg.OnServed(s)
}
