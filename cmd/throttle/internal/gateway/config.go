package gateway

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// Config configures a Gateway. Only the Routes may change while it serves.
type Config struct {
	// Listen are the sockets that it serves, at least one and at most 64.
	Listen []Listen
	// Routes are tried in order, and the first that matches serves a request; a
	// request without a route is answered 404. At most 1,000. See Gateway.Swap.
	Routes []Route
	// Control decides which requests are admitted: the Store, the Rules and
	// OnEvent are its own. If nil, all are. It may serve other roles too.
	Control *admit.Control
	// Headers selects the fields that tell callers about the limit. If zero, Draft.
	Headers throttlehttp.Headers

	// Proxies are the proxies in front whose X-Forwarded-For or Forwarded is
	// believed. If zero, those that the rules of the Control trust. Here and in
	// Believed.From and ProxyProtocol, networks that are everybody are refused.
	Proxies rules.Proxies
	// Identity is the field in which an authenticating proxy states the client
	// (rules.Request.Client, the part "client" of a key). A request with several
	// such lines is answered 400. If zero, no client is known.
	Identity Believed
	// Priority is the field in which a proxy states low, normal, high or
	// critical, for load shedding. If zero, the rules state it.
	Priority Believed
	// Underscores passes header fields with '_' in their names on. If false they
	// are removed, as many services take X_Customer for X-Customer.
	Underscores bool

	// Limits bound what callers may make the Gateway hold.
	Limits Limits
	// Drain is how it ends.
	Drain Drain

	// Log is where faults are logged. If nil, they are not.
	Log *slog.Logger
	// OnServed is called after each request, in its goroutine. It must be safe
	// for concurrent use and return soon. If nil, nothing is called, and no time
	// is taken.
	OnServed func(Served)
}

// Listen is one socket.
type Listen struct {
	// Addr is HOST:PORT; without a host, all addresses of the machine. It is
	// only a name for logs if there is a Listener.
	Addr string
	// Listener is a socket that is open already, as by socket activation. The
	// Gateway closes it.
	Listener net.Listener
	// TLS encrypts it. If nil, it speaks plain HTTP/1.1, and HTTP/2 to callers
	// that begin with it (h2c with prior knowledge).
	TLS *TLS
	// ProxyProtocol are the networks from which a connection must begin with the
	// header of the PROXY protocol, version 1 or 2, which states the address of
	// the caller. From elsewhere the header is not understood, so that no caller
	// can choose its address. If empty, nowhere.
	ProxyProtocol rules.Networks
}

// TLS are files in PEM form. They are read again when they change, within a
// second; while a new one is wrong, the old ones are in use.
type TLS struct {
	// Cert and Key are the certificate with its chain, and its private key.
	Cert, Key string
	// ClientCA are the authorities whose certificates callers must show (mTLS).
	// If empty, they need none.
	ClientCA string
}

// Route says where some requests go.
type Route struct {
	// Match is a pattern of the path, such as /api/*, in which '*' is any text;
	// with a host before it, as in api.example.org/*, only that one. If empty,
	// all requests.
	Match string
	// To are the upstreams, as http://, https:// or h2c://HOST:PORT, with a path
	// that is put before that of the request; or dns+srv://NAME, which is asked
	// for hosts and ports. A name may have many addresses; it is resolved again
	// and again. At most 64, with together at most 1,000 addresses. Each request
	// goes to the address with the fewest in flight.
	To []string
	// PassHost sends the Host of the caller to the upstream. If false, that of To.
	PassHost bool
	// TLS is for upstreams by https. If zero, the system's authorities count.
	TLS UpstreamTLS
	// Timeout bounds the wait for the header of an answer, from the end of the
	// request: 504 beyond. If zero, a minute.
	Timeout time.Duration
	// Idle bounds the time in which neither side of an exchange sends anything,
	// also in WebSockets and streams: it is cut then. The wait for an answer does
	// not count. If zero, five minutes; if below zero, there is no bound.
	Idle time.Duration
	// MaxBody bounds the bytes of a request's body: 413 beyond. If zero, that of
	// Limits.
	MaxBody int64
	// Upgrades are the protocols that a connection may be upgraded to, in any
	// case. If nil, "websocket". Requests for others are served without the
	// upgrade. Never h2c: requests inside it would not be limited.
	Upgrades []string
	// Shed is load shedding for the upstreams of this route. If nil, there is
	// none.
	Shed *Shed
	// Degraded answers instead of a refusal by 429 or 503, and while Degrade
	// returns true. If nil, refusals are what they are.
	Degraded *Degraded
	// Degrade reports that all requests are to be answered by Degraded now, as
	// by a switch. It is called for each request with the version of the rules
	// that decides about it, which is nil if there are none. If nil, never.
	Degrade func(*rules.Compiled) bool
}

// UpstreamTLS are files in PEM form. CA is read when the route is put into use;
// Cert and Key are read again when they change, as those of TLS are, and shown on
// connections that are opened after that.
type UpstreamTLS struct {
	// CA are the authorities that are trusted. If empty, those of the system.
	CA string
	// Cert and Key are what the Gateway shows to the upstream. If empty, nothing.
	Cert, Key string
	// ServerName is the name that the certificate must have. If empty, the host
	// of To.
	ServerName string
}

// Shed configures an admit.Shedder.
type Shed struct {
	// MaxInFlight bounds the requests in flight. If zero, the bound is learnt
	// from the latency of the upstream.
	MaxInFlight int
	// MaxWaiting bounds the requests that wait for room. If zero, 1000.
	MaxWaiting int
	// MaxWait bounds their wait. If zero, see admit.Shedder; below zero, they do
	// not wait.
	MaxWait time.Duration
}

// Degraded is an answer with less: a static one, or that of another upstream.
type Degraded struct {
	// To are other upstreams, as in a Route, which are not limited. If empty,
	// the answer is static.
	To []string
	// Status is that of a static answer. If zero, 200.
	Status int
	// Header and Body are those of a static answer.
	Header http.Header
	Body   []byte
}

// Believed is a header field that counts only in requests from some networks,
// and is removed from all others. A Connection field cannot remove it.
type Believed struct {
	// Header is the name of the field. If empty, there is none.
	Header string
	// From are the networks of the proxies that set it in every request: of the
	// connection, not of what X-Forwarded-For says.
	From rules.Networks
}

// Limits bound what callers may make a Gateway hold.
type Limits struct {
	// MaxHeader bounds the bytes of a request's header: 431 beyond. If zero, 64 KiB.
	MaxHeader int
	// MaxBody bounds the bytes of a request's body: 413 beyond. Bodies are
	// streamed and not held. If zero, there is no bound.
	MaxBody int64
	// MaxConns bounds the connections of each socket. New ones beyond take the place of
	// those that wait longest for their next request, or wait in the queue of the kernel.
	// It bounds, for all sockets together, the streams of HTTP/2 beside one of each
	// connection too, or 10,000 does, if that is more: see Gateway.enter. If zero, 10,000.
	MaxConns int
	// MaxConnsPerAddress bounds those of one address (of one /64 in IPv6); those
	// beyond are closed at once. The networks of Proxies, Believed.From and
	// ProxyProtocol have no such bound. If zero, there is none.
	MaxConnsPerAddress int
	// HeaderTimeout bounds the time from the first byte of a request to the end
	// of its header, and a TLS handshake; and the rest of a body that was not
	// wanted, where half of Drain.Timeout is a bound too. If zero, 10 s.
	HeaderTimeout time.Duration
	// KeepAlive is how long a connection may idle between requests. If zero, 2
	// min.
	KeepAlive time.Duration
}

// Drain is how a Gateway ends, after its context has.
type Drain struct {
	// Delay is how long it goes on accepting, so that load balancers notice that
	// it is not ready any more; answers end their connections meanwhile. If
	// zero, it does not go on.
	Delay time.Duration
	// Timeout bounds the time that requests in flight have after that. If zero,
	// 30 s.
	Timeout time.Duration
}

// Served is one request that was answered.
type Served struct {
	// Route is the Match of its route; empty if there was none.
	Route string
	// Method is the method, or OTHER if it is none of RFC 9110 or PATCH.
	Method string
	// Status is that of the answer. Zero if the caller had gone before.
	Status int
	// Upstream is HOST:PORT of the upstream that answered; empty if none did.
	Upstream string
	// Tries are the upstreams that were tried. Zero if it was refused.
	Tries int
	// Admission is how long the decision took.
	Admission time.Duration
	// Wait is the time until the upstream's header was there.
	Wait time.Duration
	// Total is the time until the answer was written.
	Total time.Duration
	// Err is why no upstream answered. Nil if one did or none was asked.
	Err error
}
