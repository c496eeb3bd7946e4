package config

import (
	"net/netip"
	"time"
)

// File holds the sections of the files of 'throttle serve'. Each stands in one file. The tags are its description, see field.
type File struct {
	Version int      `name:"version" need:"true" least:"1" most:"1" doc:"version of this format, in each file: 1"`
	Store   *Store   `name:"store" doc:"where usage of each key is counted" default:"in this process"`
	Rules   *Rules   `name:"rules" doc:"where the rules come from: xds, then file, then url, then overlay" default:"nobody is limited"`
	Gateway *Gateway `name:"gateway" doc:"the reverse proxy" default:"none"`
	Envoy   *Envoy   `name:"envoy" doc:"the rate limit service of Envoy, and its quota service" default:"none"`
	Egress  *Egress  `name:"egress" doc:"the proxy for callers of limited APIs" default:"none"`
	Admin   *Admin   `name:"admin" doc:"health, metrics and the API of operators" default:"none"`
	Drain   *Drain   `name:"drain" default:"as below" doc:"how the program ends"`
	Log     *Log     `name:"log" default:"as below" doc:"what is logged, on standard error"`

	places map[string]place
}

// Store is where usage of each key is counted.
type Store struct {
	URL       StoreURL      `name:"url" need:"true" doc:"memory:, redis://HOST, redis://HOST,HOST/?cluster=true, redis+sentinel://HOST,HOST/MASTER or postgres://USER@HOST/DATABASE"`
	Deadline  time.Duration `name:"deadline" least:"1ms" most:"10s" default:"20ms" doc:"longest time that a decision waits for a store in the network; after that away decides"`
	Away      string        `name:"away" oneof:"share pass refuse" default:"share" doc:"how to decide while the store is away: each process allows 1/instances of each limit, nothing is limited, or all requests that are limited are refused"`
	Instances int           `name:"instances" least:"1" most:"100000" default:"1" doc:"how many processes share the store; used for away: share"`
	Lease     time.Duration `name:"lease" least:"10ms" most:"1m" default:"none" doc:"prefetch tokens of hot keys for this long, so that they cost few calls to the store; at least twice the deadline. All processes together admit at most lease × rate more"`
	Snapshot  Path          `name:"snapshot" default:"none" doc:"a file that keeps the counts of memory: over a restart; written at the end and at SIGUSR1"`
	Every     time.Duration `name:"snapshot_every" least:"1s" most:"24h" default:"never" doc:"time between further writes of snapshot"`
	Create    bool          `name:"create" default:"false" doc:"create the table in PostgreSQL"`
}

// Rules says where the rules come from.
type Rules struct {
	File        Path          `name:"file" default:"none" doc:"a file of rules, in YAML or JSON: watched, and read every 5 s as well"`
	URL         Web           `name:"url" default:"none" doc:"a page of rules, in YAML or JSON, on top of file: rules of the same name replace those of file"`
	Every       time.Duration `name:"every" least:"1s" most:"24h" default:"1m" doc:"time from one reading of url to the next"`
	Timeout     time.Duration `name:"timeout" least:"10ms" most:"1m" default:"10s" doc:"longest time for one reading"`
	Keep        Path          `name:"keep" default:"none" doc:"a file that keeps the last good rules of url, for a start while url is away"`
	XDS         *XDS          `name:"xds" default:"none" doc:"a management server of xDS, such as Envoy Gateway, with the configuration of the rate limit service of Envoy; below file: rules of the same name in file and url replace those of the server"`
	Overlay     Overlay       `name:"overlay" default:"none" doc:"where the admin API writes overrides, blocks and switches: a file of this process; or store, which all instances share in Redis or PostgreSQL"`
	OverlayKeep Path          `name:"overlay_keep" default:"none" doc:"a file that keeps the last good overlay of store, for a start while the store is away or has lost it"`
}

// XDS is a management server.
type XDS struct {
	Server Target       `name:"server" need:"true" doc:"HOST:PORT of its aggregated discovery service (ADS, state of the world)"`
	Node   string       `name:"node" need:"true" doc:"id of the node for which it has the configuration; for Envoy Gateway envoy-ratelimit"`
	TLS    *UpstreamTLS `name:"tls" default:"plain HTTP/2" doc:"files in PEM form, read again for each connection; {} trusts the authorities of the system"`
	Keep   Path         `name:"keep" default:"none" doc:"a file that keeps the last good rules of the server, for a start while it is away"`
}

// Gateway is the reverse proxy.
type Gateway struct {
	Listen       []Socket       `name:"listen" need:"true" doc:"sockets that it serves"`
	Routes       []Route        `name:"routes" need:"true" doc:"which requests go where; the first that matches counts"`
	Proxies      []netip.Prefix `name:"proxies" default:"those of the rules" doc:"proxies in front that are trusted to state the address of the client"`
	ProxyHeader  string         `name:"proxy_header" oneof:"X-Forwarded-For Forwarded" default:"X-Forwarded-For" doc:"the field in which these proxies state it"`
	Identity     *Believed      `name:"identity" default:"no client is known" doc:"the field in which an authenticating proxy states the client"`
	Priority     *Believed      `name:"priority" default:"by the rules" doc:"the field in which a proxy states low, normal, high or critical"`
	Headers      string         `name:"headers" oneof:"draft triple x-triple x-triple-unix retry-after remaining silent" default:"draft" doc:"fields that tell callers about the limit: RateLimit and RateLimit-Policy; RateLimit-Limit, -Remaining and -Reset; the same with X-; with the reset as Unix time; only Retry-After, on refusals; only RateLimit-Remaining; none"`
	Spread       time.Duration  `name:"spread" least:"1ms" most:"1h" default:"1m" doc:"longest time that is added to Retry-After, so that refused callers do not return together"`
	Underscores  bool           `name:"underscores" default:"false" doc:"pass on header fields with _ in their names"`
	MaxHeader    Size           `name:"max_header" least:"1KiB" most:"1MiB" default:"64KiB" doc:"largest header of a request; beyond it the answer is 431"`
	MaxBody      Size           `name:"max_body" least:"1B" default:"none" doc:"largest body of a request; beyond it the answer is 413"`
	MaxConns     int            `name:"max_connections" least:"1" most:"1000000" default:"10000" doc:"most connections of each socket; further ones replace those that wait longest for their next request, or wait"`
	MaxOfAddress int            `name:"max_connections_per_address" least:"1" most:"1000000" default:"none" doc:"most connections of one address, or /64; further ones are closed"`
	HeaderIn     time.Duration  `name:"header_timeout" least:"10ms" most:"10m" default:"10s" doc:"time for the header of a request, for a TLS handshake, and for the rest of a body after an early answer"`
	KeepAlive    time.Duration  `name:"keep_alive" least:"10ms" most:"1h" default:"2m" doc:"longest time that a connection may idle between requests"`
}

// Socket is one socket. In the file it may be the address alone.
type Socket struct {
	Address   Listen         `name:"address" need:"true" short:"true" doc:"HOST:PORT, :PORT (every address of this machine), unix:PATH, or systemd:NAME, a socket that systemd opens"`
	TLS       *TLS           `name:"tls" default:"plain HTTP/1.1, and HTTP/2 for callers that begin with it" doc:"files in PEM form, read again when they change"`
	Proxies   []netip.Prefix `name:"proxy_protocol" default:"none" doc:"networks whose connections begin with the header of the PROXY protocol; not for a unix socket, whose connections have no address"`
	ReusePort bool           `name:"reuse_port" default:"false" doc:"SO_REUSEPORT: the next process may listen before this one ends"`
}

// Envoy is the rate limit service of Envoy.
type Envoy struct {
	Listen  EnvoySocket   `name:"listen" need:"true" doc:"socket that it serves, by gRPC"`
	Spread  time.Duration `name:"spread" least:"1ms" most:"1h" default:"that of gateway, or 1m" doc:"longest time that is added to Retry-After, so that refused callers do not return together"`
	Silent  bool          `name:"silent" default:"false" doc:"tell callers only when to come again: Retry-After, without RateLimit and RateLimit-Policy"`
	Refunds bool          `name:"refunds" default:"false" doc:"give back the hits of descriptors with is_negative_hits; all that reach the socket may then free any key of its limit"`
	Quota   *Quota        `name:"quota" default:"none" doc:"the rate limit quota service (RLQS) on the same socket; {} has it as below"`
}

// Quota is the rate limit quota service of Envoy.
type Quota struct {
	MaxStreams int           `name:"max_streams" least:"1" most:"100000" default:"1000" doc:"most streams of Envoys; further ones are refused"`
	MaxBuckets int           `name:"max_buckets" least:"1" most:"1000000" default:"100000" doc:"most buckets of all streams; further ones are not assigned anything"`
	Idle       time.Duration `name:"idle" least:"1s" most:"24h" default:"5m" doc:"how long a bucket without requests is kept"`
}

// EnvoySocket is the socket for Envoy. In the file it may be the address alone.
type EnvoySocket struct {
	Address   Listen `name:"address" need:"true" short:"true" doc:"HOST:PORT, :PORT, unix:PATH or systemd:NAME"`
	TLS       *TLS   `name:"tls" default:"plain HTTP/2" doc:"files in PEM form, read again when they change"`
	ReusePort bool   `name:"reuse_port" default:"false" doc:"SO_REUSEPORT: the next process may listen before this one ends"`
}

// Egress is the proxy for callers of limited APIs.
type Egress struct {
	Listen      Listen               `name:"listen" need:"true" doc:"socket that it serves: HOST:PORT, unix:PATH or systemd:NAME; all that reach it may call the APIs, so as a rule 127.0.0.1:8090"`
	APIs        map[string]CalledAPI `name:"apis" need:"true" doc:"the APIs, at most 100, each by a name: callers write http://LISTEN/NAME/ in place of its url"`
	MaxBody     Size                 `name:"max_body" least:"1B" most:"64MiB" default:"1MiB" doc:"largest body of a request that is kept in memory, so that the request can be sent again; longer ones are streamed and sent once"`
	MaxRequests int                  `name:"max_requests" least:"1" most:"1000000" default:"10000" doc:"most requests at a time, waiting ones included; beyond it the answer is 503"`
	Timeout     time.Duration        `name:"timeout" least:"10ms" most:"24h" default:"10m" doc:"longest wait for the header of an API's answer; after that the answer is 504"`
	Intercept   *Intercept           `name:"intercept" doc:"what programs reach by CONNECT, with HTTPS_PROXY=http://LISTEN" default:"CONNECT is refused"`
}

// Intercept lets programs send CONNECT, and says to which hosts.
type Intercept struct {
	CA     Path     `name:"ca" need:"true" doc:"directory of the authority, as throttle ca -dir DIR makes it"`
	Hosts  []string `name:"hosts" default:"all APIs by https" doc:"hosts whose requests are paced, as HOST or HOST:PORT, each that of an API by https"`
	Tunnel []string `name:"tunnel" default:"none" doc:"other targets, to which bytes pass unseen: NAME, *.NAME, *, an address or a network, each with :PORT or for 443; addresses that are not public must be listed themselves"`
	Token  Secret   `name:"token" default:"none" doc:"password that all requests must have in Proxy-Authorization, by any user"`
}

// CalledAPI is a limited API. In the file it may be the URL alone.
type CalledAPI struct {
	URL         Web           `name:"url" need:"true" short:"true" doc:"where it is, as https://api.github.com"`
	Account     Field         `name:"account" default:"one limit for all" doc:"header:NAME: each value of that header field has a limit of its own"`
	Dialect     string        `name:"dialect" default:"by the host" doc:"how the API reports its limits: one of docs/dialects.md"`
	Rate        Rate          `name:"rate" default:"learnt" doc:"the limit, where it is known, as 4/s or 100/min burst 10"`
	Fleet       bool          `name:"fleet" default:"false" doc:"share rate with the other processes that use the same store"`
	MaxInFlight int           `name:"max_in_flight" least:"1" most:"1000000" default:"none" doc:"most requests in flight for one account"`
	Wait        time.Duration `name:"wait" least:"1ms" most:"24h" default:"1m" doc:"longest time that a request waits for its turn and between tries; after that the answer is 429 or 504"`
	Private     bool          `name:"private" default:"false" doc:"permit private addresses, which the host of url may resolve to"`
}

// AdminSocket is the socket of operators. In the file it may be the address alone.
type AdminSocket struct {
	Address Listen `name:"address" need:"true" short:"true" doc:"HOST:PORT, :PORT, unix:PATH or systemd:NAME"`
	TLS     *TLS   `name:"tls" default:"plain HTTP" doc:"files in PEM form, read again for each connection"`
}

// TLS are files in PEM form.
type TLS struct {
	Cert     Path `name:"cert" need:"true" doc:"certificate with its chain"`
	Key      Path `name:"key" need:"true" doc:"private key"`
	ClientCA Path `name:"client_ca" default:"none" doc:"authorities whose certificates callers must show (mTLS)"`
}

// Route says where some requests go.
type Route struct {
	Match    string        `name:"match" default:"all" doc:"pattern of the path, as /api/*, in which * is any text; with a host before it, as api.example.org/*, only for that host"`
	To       []Upstream    `name:"to" need:"true" doc:"upstreams, as http://, https:// or h2c://HOST:PORT, or dns+srv://NAME; each request goes to the address with the fewest in flight"`
	PassHost bool          `name:"pass_host" default:"false" doc:"send the Host of the caller to the upstream"`
	TLS      *UpstreamTLS  `name:"tls" default:"the authorities of the system" doc:"for upstreams by https"`
	Timeout  time.Duration `name:"timeout" least:"10ms" most:"24h" default:"1m" doc:"longest wait for the header of the answer; after that the answer is 504"`
	Idle     time.Duration `name:"idle" least:"10ms" most:"24h" default:"5m" doc:"longest time in which neither side sends anything, also in streams and WebSockets; after that the connection is cut"`
	MaxBody  Size          `name:"max_body" least:"1B" default:"that of gateway" doc:"largest body of a request; beyond it the answer is 413"`
	Upgrades []string      `name:"upgrades" default:"websocket" doc:"protocols that a connection may be upgraded to"`
	Shed     *Shed         `name:"shed" default:"none" doc:"load shedding for the upstreams of this route; {} learns how much load they bear"`
	Degraded *Degraded     `name:"degraded" default:"none" doc:"a smaller answer instead of 429 and 503"`
	Switch   string        `name:"degrade_switch" default:"none" doc:"a switch of the rules; while it is true, degraded answers all requests"`
}

// UpstreamTLS is for upstreams by https, and for a management server.
type UpstreamTLS struct {
	CA         Path   `name:"ca" default:"those of the system" doc:"authorities that are trusted"`
	Cert       Path   `name:"cert" default:"none" doc:"certificate that is shown to the server"`
	Key        Path   `name:"key" default:"none" doc:"its private key"`
	ServerName string `name:"server_name" default:"the host" doc:"name that the certificate of the server must have"`
}

// Shed is load shedding.
type Shed struct {
	MaxInFlight int           `name:"max_in_flight" least:"1" most:"1000000" default:"learnt from the latency" doc:"most requests in flight"`
	MaxWaiting  int           `name:"max_waiting" least:"1" most:"100000" default:"1000" doc:"most requests that wait for room"`
	MaxWait     time.Duration `name:"max_wait" least:"0s" most:"1m" default:"100ms, or ten times the latency" doc:"longest wait for room; after that the answer is 503; 0s: no wait"`
}

// Degraded is an answer with less.
type Degraded struct {
	To     []Upstream        `name:"to" default:"none: the answer is static" doc:"other upstreams; requests to them are not limited"`
	Status int               `name:"status" least:"200" most:"599" default:"200" doc:"status of a static answer"`
	Header map[string]string `name:"header" default:"none" doc:"fields of a static answer"`
	Body   string            `name:"body" default:"empty" doc:"body of a static answer"`
	File   Path              `name:"file" default:"none" doc:"body of a static answer, from a file of at most 1 MiB"`
}

// Believed is a header field that counts only from some proxies.
type Believed struct {
	Header string         `name:"header" need:"true" doc:"name of the field; it is removed from requests of other networks"`
	From   []netip.Prefix `name:"from" need:"true" doc:"networks of the proxies that set it in every request"`
}

// Admin is for operators.
type Admin struct {
	Listen    AdminSocket   `name:"listen" need:"true" doc:"socket that it serves; all but loopback and unix:PATH need a token or client_ca"`
	Token     Secret        `name:"token" default:"none" doc:"secret of at least 16 bytes; callers that present it may do everything"`
	ReadToken Secret        `name:"read_token" default:"none" doc:"secret of at least 16 bytes; callers that present it may read"`
	Tokens    []Token       `name:"tokens" default:"none" doc:"tokens with names, for the audit log"`
	Writers   []string      `name:"writers" default:"all certificates" doc:"names of the certificates that may write"`
	Hosts     []string      `name:"hosts" default:"localhost and addresses" doc:"further names that are accepted in Host, with any port"`
	Pprof     bool          `name:"pprof" default:"false" doc:"serve /debug/pprof/, to those that may write"`
	ShowKeys  bool          `name:"show_keys" default:"false" doc:"show keys rather than digests of them"`
	OTLP      Web           `name:"otlp" default:"none" doc:"address to which metrics are pushed by OTLP over HTTP"`
	OTLPEvery time.Duration `name:"otlp_every" least:"1s" most:"1h" default:"1m" doc:"time from one push to the next"`
	Ready     string        `name:"ready" oneof:"rules store" default:"rules" doc:"what /readyz needs to be green: loaded rules; with store, also the store"`
}

// Token is a secret with a name.
type Token struct {
	Name   string `name:"name" need:"true" doc:"name of the caller in the audit log"`
	Secret Secret `name:"secret" need:"true" doc:"at least 16 bytes"`
	Write  bool   `name:"write" default:"false" doc:"allows everything, not only reading"`
}

// Drain says how the program ends.
type Drain struct {
	Delay   time.Duration `name:"delay" least:"0s" most:"10m" default:"5s" doc:"how long it goes on accepting after SIGTERM, with /readyz red, so that load balancers notice"`
	Timeout time.Duration `name:"timeout" least:"1ms" most:"24h" default:"30s" doc:"time that requests in flight have after delay"`
}

// Log configures the log.
type Log struct {
	Level  string `name:"level" oneof:"debug info warn error" default:"info" doc:"lowest level that is logged"`
	Format string `name:"format" oneof:"json text" default:"json" doc:"format of a line"`
}
