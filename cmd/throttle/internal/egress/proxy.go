package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/load"
)

const (
	// loopField names, in a request to an API, the proxies that it has passed. It is not
	// Via, for which some servers leave out compression.
	loopField = "Throttle-Egress"
	// waitField bounds the wait of a request.
	waitField = "Throttle-Max-Wait"
	// priorityField is low, normal, high or critical.
	priorityField = "Throttle-Priority"
	// tokensField is how many tokens a request is estimated to cost, for APIs that limit tokens
	// besides requests.
	tokensField = "Throttle-Tokens"
)

// exchange is a request on its way to an API.
type exchange struct {
	api    *api
	to     *url.URL
	own    string      // the URL of the API as the caller knows it; empty: it uses that of the API
	header http.Header // of the answer to the caller
	upload *upload
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP serves a request: one with a path /NAME/PATH, or one with the URL of an API,
// as a client sends it to a proxy.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.draining.Load() {
		w.Header().Set("Connection", "close") // in HTTP/2 it is GOAWAY
	}
	if r.ProtoMajor == 2 {
		s := &stream{w, http.NewResponseController(w), p.takeIn}
		defer s.begin()
		w = s
	}
	r = p.addressed(r)
	if p.shows(r) {
		p.serveOwn(w, r)
		return
	}
	if a := final(r); a != nil {
		a.write(w)
		return
	}
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		a := refusal(http.StatusServiceUnavailable, "busy", "too many requests at a time")
		a.after = time.Second
		a.write(w)
		return
	}
	x, out, no := p.accept(r)
	if no != nil {
		if p.passesOn(r, no) {
			p.others.ServeHTTP(w, r)
			return
		}
		no.write(w)
		return
	}
	if n := p.keep(out); n > 0 {
		defer p.bodies.Add(-n)
		if err := p.fill(w, out); err != nil {
			refusal(http.StatusBadRequest, "bad-body", "the body did not come whole: "+err.Error()).write(w)
			return
		}
	} else if out.ContentLength != 0 {
		out, x.upload = streamed(w, out)
		defer x.upload.leave()
	}
	x.header = w.Header()
	p.reverse.ServeHTTP(w, out)
}

// accept finds where a request goes. no is the answer to one that goes nowhere.
func (p *Proxy) accept(r *http.Request) (x *exchange, out *http.Request, no *answer) {
	if r.Method == http.MethodConnect {
		return nil, nil, refusal(http.StatusForbidden, "not-listed", words.Quote(r.Host)+" is not intercepted here; use http://"+localOf(r.Context())+"/NAME/ in place of https://HOST/")
	}
	if strings.ContainsFunc(r.Method, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, nil, refusal(http.StatusBadRequest, "bad-request", "the method is not a token")
	}
	if r.URL.Path == "*" && r.Method != http.MethodOptions {
		return nil, nil, refusal(http.StatusBadRequest, "bad-request", "the path must begin with /")
	}
	a, to, byPath, no := find(p.apis, r.URL, localOf(r.Context()))
	if byPath && no == nil {
		no = p.foreign(r)
	}
	if no == nil && slices.Contains(r.Header[loopField], p.mark) {
		no = refusal(http.StatusLoopDetected, "loop", "the request has passed this proxy before; is the URL of "+a.name+" this proxy itself?")
	}
	if no != nil {
		return nil, nil, no
	}
	options, no := optionsOf(r.Header, a.MaxWait)
	if no != nil {
		return nil, nil, no
	}
	x = &exchange{api: a, to: to}
	if byPath && r.Host != "" {
		x.own = "http://" + r.Host + "/" + a.name
	}
	ctx := throttle.WithOptions(context.WithValue(r.Context(), exchangeKey{}, x), options)
	return x, r.WithContext(ctx), nil
}

// optionsOf reads what a request says of its wait, which most bounds, and its cost.
func optionsOf(h http.Header, most time.Duration) (o throttle.CallOptions, no *answer) {
	o.MaxWait = most
	if text := h.Get(waitField); text != "" {
		d, ok := words.Duration(text)
		if !ok || d < 0 {
			return o, refusal(http.StatusBadRequest, "bad-request", waitField+" must be a duration, as 5s or 500ms")
		}
		o.MaxWait = max(min(d, most), 1) // zero would be the default of the Throttle
	}
	if text := h.Get(priorityField); text != "" {
		p := load.Normal
		if p.UnmarshalText([]byte(text)) != nil {
			return o, refusal(http.StatusBadRequest, "bad-request", priorityField+" must be low, normal, high or critical")
		}
		o.Priority = p
	}
	if text := h.Get(tokensField); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return o, refusal(http.StatusBadRequest, "bad-request", tokensField+" must be a whole number above zero, as 3000")
		}
		o.Needs = []throttle.Need{{Scope: "tokens", Cost: n}}
	}
	return o, nil
}

// foreign refuses what a web page in a browser on this machine sends: by its own name for
// an address of this machine (DNS rebinding), or from another origin.
func (p *Proxy) foreign(r *http.Request) *answer {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site != "" && site != "none" && site != "same-origin", site == "" && origin != "" && !strings.EqualFold(origin, "http://"+r.Host):
		// A browser sends the former to trustworthy addresses, as those of loopback, alone.
		return refusal(http.StatusForbidden, "browser", "a page of another origin may not use this proxy")
	case r.Host != "" && !local(r.Host) && onLoopback(r.Context()): // HTTP/1.0 may have none, and no browser leaves it out
		return refusal(http.StatusForbidden, "browser", "the field Host must be localhost or an address, not "+words.Quote(r.Host))
	}
	return nil
}

// local reports whether a Host is an address, or localhost.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// localOf is the address of this proxy that a request came to; empty if unknown.
func localOf(ctx context.Context) string {
	if a, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		return a.String()
	}
	return ""
}

// onLoopback reports whether a request came to an address that only this machine reaches.
func onLoopback(ctx context.Context) bool {
	a, err := netip.ParseAddrPort(localOf(ctx))
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// shows reports whether a request is for the page, or for its link.
func (p *Proxy) shows(r *http.Request) bool {
	return r.URL.Host == "" && r.Method != http.MethodConnect && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/"+pageName+"/"))
}

// serveOwn serves the page of what each Throttle has learnt, to this machine alone.
func (p *Proxy) serveOwn(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	switch no := p.foreign(r); {
	case no != nil:
		no.write(w)
	case err == nil && !from.Addr().Unmap().IsLoopback():
		refusal(http.StatusForbidden, "not-local", "the page is for callers on this machine").write(w)
	case r.URL.Path == "/":
		http.Redirect(w, r, "/"+pageName+"/", http.StatusFound)
	default:
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(p.watched, cancel)()
		http.StripPrefix("/"+pageName, p.page).ServeHTTP(w, r.WithContext(ctx))
	}
}

// proxy makes what passes requests and answers on.
func (p *Proxy) proxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: sender{}, ModifyResponse: modify, ErrorHandler: p.fail,
		BufferPool: new(buffers), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
	}
}

// sender sends a request by the Transport of its API.
type sender struct{}

func (sender) RoundTrip(r *http.Request) (*http.Response, error) {
	a := exchangeOf(r.Context()).api
	if r.Header.Get("Upgrade") != "" {
		return a.upgrades.RoundTrip(r)
	}
	return a.plain.RoundTrip(r)
}

// forwarded are the fields that httputil.ReverseProxy removes. They are the caller's to
// say: this proxy stands on its side.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request for the API.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	x := exchangeOf(r.In.Context())
	r.Out.URL, r.Out.Host = x.to, x.to.Host
	r.Out.Trailer = r.In.Trailer // no copy: its values are set while the body is read
	keepForwarded(r)
	if x.upload != nil {
		r.Out.Body = x.upload // httputil would keep Close from it
	}
	if strings.EqualFold(r.Out.Header.Get("Upgrade"), "h2c") {
		// Java asks for it by itself. Requests on such a connection would not be paced.
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			delete(r.Out.Header, name)
		}
	}
	delete(r.Out.Header, waitField)
	delete(r.Out.Header, priorityField)
	delete(r.Out.Header, tokensField)
	r.Out.Header.Add(loopField, p.mark)
	forward(r.Out)
	if !signed(r.Out.Header) {
		// net/http then asks for gzip and decodes it: where a refusal says its reason in
		// its body, that can be read.
		delete(r.Out.Header, "Accept-Encoding")
	}
}

// keepForwarded copies the forwarded fields of the caller.
func keepForwarded(r *httputil.ProxyRequest) {
	for _, name := range forwarded {
		if lines, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = lines
		}
	}
}

// signed reports whether a request may carry a signature over its fields: such
// credentials are lists of parameters.
func signed(h http.Header) bool {
	return strings.Contains(h.Get("Authorization"), ",") || h.Get("Signature") != "" || h.Get("Signature-Input") != ""
}

// fail answers a request that no answer of the API came for.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	ctx := r.Context()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errEnding) {
		panic(http.ErrAbortHandler) // the caller has gone
	}
	a := judge(time.Now(), x.api.name, err)
	x.upload.last(w.Header())
	if x.upload != nil && x.upload.broken.Load() {
		(&answer{status: http.StatusBadRequest, reason: "bad-body", text: "the body did not come whole", ran: a.ran}).write(w)
		return
	}
	if p.lines.May(time.Now()) {
		p.log.Warn("given up", "api", x.api.account(r), "reason", a.reason, "status", a.status, "err", words.OneLine(err.Error()))
	}
	a.write(w)
}

// buffers are used again by answers.
type buffers struct{ sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.Pool.Get().(*[32 << 10]byte); ok {
		return p[:]
	}
	return new([32 << 10]byte)[:]
}

// Put takes back a buffer of Get.
func (b *buffers) Put(p []byte) { b.Pool.Put((*[32 << 10]byte)(p)) }
