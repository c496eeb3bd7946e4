package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/throttlehttp"
)

// A Flaw is a mistake in a Config.
type Flaw struct {
	// Path is the place, as in routes[1].to[0], in small letters with '_' between
	// words.
	Path string
	// What states the mistake, and a correct form.
	What string
}

// Error returns the place and the mistake.
func (f *Flaw) Error() string { return f.Path + ": " + f.What }

func flawf(path, format string, a ...any) error { return &Flaw{path, fmt.Sprintf(format, a...)} }

// route is a Route in use.
type route struct {
	Route
	host, path glob.Pattern // host is nil for any
	upgrades   []string     // in small letters
	idle       time.Duration
	watch      watchlist
	maxBody    int64
	below      bool // a target has a path, which no request may leave
	shed       *admit.Shedder
	pool       *upstream.Pool
	instead    *upstream.Pool // of Degraded.To
	handler    throttlehttp.Handler
}

// matches reports whether the route is for a request to host, in small letters
// and without a port, and path, cleaned.
func (t *route) matches(host, path string) bool {
	return (t.host == nil || t.host.Match(host)) && t.path.Match(path)
}

const (
	maxRoutes = 1000
	maxStatic = 1 << 20
)

// route prepares a Route, the n-th; old are the routes in use, whose pools and
// shedders it takes if they are the same.
func (g *Gateway) route(n int, from Route, old []*route) (*route, error) {
	at := func(name string) string { return "routes[" + strconv.Itoa(n) + "]." + name }
	t := &route{Route: from, idle: from.Idle, maxBody: from.MaxBody}
	for _, protocol := range from.Upgrades {
		t.upgrades = append(t.upgrades, strings.ToLower(protocol))
	}
	if from.Upgrades == nil {
		t.upgrades = []string{"websocket"}
	}
	if slices.Contains(t.upgrades, "h2c") {
		return nil, flawf(at("upgrades"), "must not have h2c: requests inside it would not be limited; callers may begin with HTTP/2")
	}
	if t.idle == 0 {
		t.idle = 5 * time.Minute
	}
	if t.Timeout == 0 {
		t.Timeout = time.Minute
	}
	t.watch.idle, t.watch.answer, t.watch.start = t.idle, t.Timeout, g.start
	if t.maxBody == 0 {
		t.maxBody = g.cfg.Limits.MaxBody
	}
	if t.Timeout < 0 {
		return nil, flawf(at("timeout"), "%v: must not be below zero", t.Timeout)
	}
	if err := t.readMatch(); err != nil {
		return nil, flawf(at("match"), "%v", err)
	}
	secure, err := t.TLS.Config(g.log)
	if err != nil {
		return nil, flawf(at("tls"), "%v", err)
	}
	if t.pool, err = g.pool(at("to"), t.To, t, secure, old); err != nil {
		return nil, err
	}
	t.shed = t.shedder(old)
	if err := g.degrades(t, at, secure, old); err != nil {
		return nil, err
	}
	t.handler = throttlehttp.Handler{Control: g.control, Headers: g.cfg.Headers, Request: g.request}
	t.handler.Admitted = func(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
		x := w.(*exchange)
		x.decided()
		x.forward(r, t.pool, a)
	}
	if t.Degraded != nil {
		t.handler.Degraded = http.HandlerFunc(t.degrade)
	}
	return t, nil
}

// readMatch reads Match, and refuses one that no request would meet.
func (t *route) readMatch() error {
	text := t.Match
	if text == "" {
		text = "/*"
	}
	slash := strings.IndexByte(text, '/')
	switch {
	case slash < 0 && strings.HasPrefix(text, "*"):
		slash = 0
	case slash < 0:
		return fmt.Errorf("%q: must have a path, as /api/* or api.example.org/*", text)
	case slash > 0:
		host := strings.ToLower(text[:slash])
		if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
			host = "[" + host + "]" // as in a Host
		}
		if hostOf(host) != host {
			return fmt.Errorf("%q: must have a host without scheme, port and final dot, as api.example.org/*", text)
		}
		if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
			return fmt.Errorf("%q: must have a host as requests have it, in ASCII: xn--mnchen-3ya.example/* for münchen.example/*", text)
		}
		t.host = glob.Of(host)
	}
	if path := text[slash:]; path[0] == '/' && cleaned(path) != path {
		return fmt.Errorf("%q: paths are compared without // and dot segments; write %q", text, text[:slash]+cleaned(path))
	}
	t.path = glob.Of(text[slash:])
	return nil
}

// pool returns the pool of the targets, that of an old route if it has the same.
func (g *Gateway) pool(at string, to []string, t *route, secure *tls.Config, old []*route) (*upstream.Pool, error) {
	for i, text := range to {
		u, err := upstream.Parse(text)
		if err != nil {
			return nil, flawf(at+"["+strconv.Itoa(i)+"]", "%s: %v", words.BadURL(text), err)
		}
		for n, l := range g.cfg.Listen {
			if itself(u, l.Addr) {
				return nil, flawf(at+"["+strconv.Itoa(i)+"]", "%s: is this gateway itself, at listen[%d]; write another of the two", words.BadURL(text), n)
			}
		}
		t.below = t.below || u.Path != "" && u.Path != "/"
	}
	for _, o := range old {
		if o.Timeout != t.Timeout || o.TLS != t.TLS || t.TLS != (UpstreamTLS{}) { // files may have changed
			continue
		}
		if slices.Equal(o.To, to) {
			return o.pool, nil
		}
		if o.instead != nil && slices.Equal(o.Degraded.To, to) {
			return o.instead, nil
		}
	}
	p, err := upstream.New(to, upstream.Options{Timeout: t.Timeout, TLS: secure, OnState: g.said, Files: &g.files})
	if err != nil {
		return nil, flawf(at, "%v", err)
	}
	for _, o := range pools(old) {
		if p.Remember(o) { // so that no request waits for a name server, or fails without one
			break
		}
	}
	return p, nil
}

// Config reads the files, and the certificate again for each handshake; nil if there are
// none. What is wrong with them later, and when they expire, is logged.
func (u UpstreamTLS) Config(log *slog.Logger) (*tls.Config, error) {
	if u == (UpstreamTLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.ServerName}
	if u.CA != "" {
		pool, err := certificate.Authorities(u.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if u.Cert == "" && u.Key == "" {
		return c, nil
	}
	files := (&TLS{Cert: u.Cert, Key: u.Key}).files(log)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &files.At(time.Now()).Certificates[0], nil
	}
	return c, files.Load(time.Now())
}

// shedder returns that of an old route for the same upstreams, or a new one.
func (t *route) shedder(old []*route) *admit.Shedder {
	if t.Shed == nil {
		return nil
	}
	for _, o := range old {
		if o.pool == t.pool && o.shed != nil && *o.Shed == *t.Shed {
			return o.shed
		}
	}
	return &admit.Shedder{MaxInFlight: t.Shed.MaxInFlight, MaxWaiting: t.Shed.MaxWaiting, MaxWait: t.Shed.MaxWait}
}

// degrades prepares what answers with less.
func (g *Gateway) degrades(t *route, at func(string) string, secure *tls.Config, old []*route) (err error) {
	switch d := t.Degraded; {
	case d == nil && t.Degrade != nil:
		return flawf(at("degraded"), "is missing, and something is to switch to it")
	case d == nil:
	case len(d.To) > 0:
		t.instead, err = g.pool(at("degraded.to"), d.To, t, secure, old)
	case d.Status != 0 && (d.Status < 200 || d.Status > 599):
		return flawf(at("degraded.status"), "%d: must be 200 to 599", d.Status)
	case len(d.Body) > maxStatic:
		return flawf(at("degraded.body"), "has %d bytes: must have at most %d", len(d.Body), maxStatic)
	}
	return err
}

// degrade answers with less.
func (t *route) degrade(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	if t.instead != nil {
		x.forward(r, t.instead, nil)
		return
	}
	if r.ContentLength != 0 {
		x.leave() // a long answer begins after what is left of the body
	}
	for name, lines := range t.Degraded.Header {
		w.Header()[name] = lines
	}
	w.WriteHeader(max(t.Degraded.Status, http.StatusOK))
	if r.Method != http.MethodHead {
		w.Write(t.Degraded.Body) // an error means that the caller has gone
	}
}

// request completes what the Control decides about.
func (g *Gateway) request(r *http.Request, q admit.Request) admit.Request {
	x := exchangeOf(r.Context())
	q.Version, q.Address, q.Shed = x.version, x.client, x.route.shed
	if name := g.cfg.Identity.Header; name != "" {
		q.Client = r.Header.Get(name)
	}
	if name := g.cfg.Priority.Header; name != "" {
		var p load.Priority
		if err := p.UnmarshalText([]byte(strings.ToLower(r.Header.Get(name)))); err == nil {
			q.Priority = p
		}
	}
	return q
}
