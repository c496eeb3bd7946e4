// Package gateway is the command 'throttle gateway': a reverse proxy that limits
// who calls what is behind it.
package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

const help = `throttle gateway is a reverse proxy with rate limits, for services of any language.

Usage: throttle gateway -to URL [flags]

Requests above a limit are answered 429 (Too Many Requests) with Retry-After,
RateLimit and RateLimit-Policy; all others go to URL. It ends at an interrupt,
after the requests in flight; SIGHUP reads the file of -rules again.

Flags:
  -to URL        where requests go, as in http://127.0.0.1:3000; several -to take
                 turns by the fewest requests in flight. Also https://, h2c://
                 (HTTP/2 in plain text) and dns+srv://NAME
  -listen ADDR   where it listens, default 127.0.0.1:8080; :8080 is every
                 address of this machine
  -limit 'RATE by KEY'
                 a limit for each KEY; several -limit all count. KEY is address,
                 header:NAME, host, method, path, path:N, or several with +;
                 without 'by KEY' all requests share the limit. RATE is as in
                 'throttle take', such as '100/min burst 20'. Beware of header
                 fields that callers may set freely: each new value is a new key
  -rules FILE    rules in place of -limit, see docs/rules.md; read again every
                 -refresh, and kept as they are while the new text is wrong
  -refresh D     default 5s
  -trust NETWORKS
                 proxies in front whose X-Forwarded-For is believed, separated by
                 commas, as in 10.0.0.0/8; with -rules, write them into the file
  -shed          load shedding: bound the requests in flight by what the service
                 bears, learnt from its latency; 503 beyond
  -store URL     share the limits with other processes, as in 'throttle take';
                 default memory:. Also by THROTTLE_STORE
  -away WHAT     what counts while that store is away: share (each process has
                 1/-instances of the limit; the default), pass or refuse
  -instances N   how many processes share the store, default 1
  -timeout D     how long the service may take to begin its answer, default 1m
  -idle D        how long nothing may move in a request, a stream or a WebSocket,
                 default 5m
  -pass-host     send the caller's Host to the service, in place of that of -to
  -headers FORM  how callers are told about limits: draft (default), triple,
                 x-triple, retry-after or silent
  -max-body N    bound the bytes of a request's body, 413 beyond; default none
  -identity 'HEADER from NETWORKS'
                 the field in which an authenticating proxy of NETWORKS states the
                 client, the KEY 'client'; the gateway removes it from requests of
                 other addresses
  -cert FILE, -key FILE, -client-ca FILE
                 serve TLS; with -client-ca callers must show a certificate. The
                 files are read again when they change
  -proxy-protocol NETWORKS
                 load balancers whose connections begin with the PROXY protocol
  -delay D       how long it goes on accepting at the end, default 0s
  -drain D       how long requests in flight may take at the end, default 10s

Examples:
  throttle gateway -to http://127.0.0.1:3000 -limit '100/min by address'
  throttle gateway -to http://app:3000 -listen :80 -shed -limit '5/s burst 20 by header:X-Api-Key'
  throttle gateway -to http://app:3000 -rules rules.json -store redis://cache -instances 2
`

// options is what the command line asks for.
type options struct {
	Config
	route     Route
	limits    []string
	rules     string
	refresh   time.Duration
	trust     rules.Networks
	shed      bool
	store     string
	away      store.Fallback
	awayWord  string // the same, as it was written
	instances int
	given     []string                    // flags
	reload    func(context.Context) error // reads the file of rules now; nil: there is none
}

// Run serves until ctx ends.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	operate.OutliveReaders()
	signals := operate.Catch()
	log, flush := operate.Log(stderr, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) })
	defer flush()
	o.Log = log
	live, what, err := o.live(ctx, o.Log)
	if err != nil {
		return err
	}
	s, err := o.open(ctx, o.Log)
	if err != nil {
		return err
	}
	defer s.Close()
	o.Control = &admit.Control{Store: s, Rules: live, OnEvent: admit.Log(o.Log, 10)}
	o.Routes = []Route{o.route}
	g, err := New(o.Config)
	if err != nil {
		return inFlags(err)
	}
	sockets, err := g.open(ctx)
	if err != nil {
		return err
	}
	scheme := "http"
	if o.Listen[0].TLS != nil {
		scheme = "https"
	}
	status := fmt.Sprintf("%s://%s to %s; %s, in %s", scheme, sockets[0].Addr(), strings.Join(o.route.To, ", "), what, s.Name)
	fmt.Fprintf(&operate.LogWriter{To: stderr}, "throttle gateway: %s\n", status)
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { (&operate.Process{Reload: o.reload, Log: o.Log}).Run(running, signals, status) })
	err = g.serveOn(ctx, sockets)
	stop()
	ended.Wait()
	return err
}

// inFlags is a mistake in the Config, with the flag that it is about in place of the field.
func inFlags(err error) error {
	flaw := (*Flaw)(nil)
	if !errors.As(err, &flaw) {
		return usage.Errorf("gateway: %v", err)
	}
	at := flaw.Path
	switch {
	case strings.HasPrefix(at, "routes[0].to"):
		at = "-to"
	case strings.HasPrefix(at, "identity"):
		at = "-identity"
	case strings.Contains(at, "proxy_protocol"):
		at = "-proxy-protocol"
	}
	return usage.Errorf("gateway: %s: %s", at, flaw.What)
}

// texts are the arguments that are read once all are known.
type texts struct{ trust, away, headers, identity, proxyProtocol, listen, cert, key, clientCA string }

// optionsOf reads the arguments.
func optionsOf(args []string) (*options, error) {
	o, t := new(options), new(texts)
	flags := o.flags(t)
	names, err := usage.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	flags.Visit(func(f *flag.Flag) { o.given = append(o.given, f.Name) })
	if len(names) > 0 {
		return nil, usage.Errorf("gateway: %s is too much; write 'throttle gateway -to URL [flags]'", words.Quote(names[0]))
	}
	for _, read := range []func(*texts) error{o.readTo, o.readTrust, o.readAway, o.readHeaders, o.readIdentity, o.readListen} {
		if err := read(t); err != nil {
			return nil, err
		}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	for _, text := range o.route.To {
		if u, err := upstream.Parse(text); err == nil && itself(u, t.listen) {
			return nil, usage.Errorf("gateway: -to %s: is this gateway itself; write another -listen", words.BadURL(text))
		}
	}
	return o, o.together()
}

func (o *options) flags(t *texts) *flag.FlagSet {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.Func("to", "", func(text string) error { o.route.To = append(o.route.To, text); return nil })
	flags.Func("limit", "", func(text string) error { o.limits = append(o.limits, text); return nil })
	flags.StringVar(&t.listen, "listen", "127.0.0.1:8080", "")
	flags.StringVar(&t.trust, "trust", "", "")
	flags.StringVar(&t.away, "away", "share", "")
	flags.StringVar(&t.headers, "headers", "draft", "")
	flags.StringVar(&t.identity, "identity", "", "")
	flags.StringVar(&t.proxyProtocol, "proxy-protocol", "", "")
	flags.StringVar(&t.cert, "cert", "", "")
	flags.StringVar(&t.key, "key", "", "")
	flags.StringVar(&t.clientCA, "client-ca", "", "")
	flags.StringVar(&o.rules, "rules", "", "")
	flags.DurationVar(&o.refresh, "refresh", 5*time.Second, "")
	flags.BoolVar(&o.shed, "shed", false, "")
	flags.StringVar(&o.store, "store", "", "")
	flags.IntVar(&o.instances, "instances", 1, "")
	flags.DurationVar(&o.route.Timeout, "timeout", time.Minute, "")
	flags.DurationVar(&o.route.Idle, "idle", 5*time.Minute, "")
	flags.BoolVar(&o.route.PassHost, "pass-host", false, "")
	flags.Int64Var(&o.Limits.MaxBody, "max-body", 0, "")
	flags.DurationVar(&o.Drain.Delay, "delay", 0, "")
	flags.DurationVar(&o.Drain.Timeout, "drain", 10*time.Second, "")
	return flags
}

// check checks what belongs together.
func (o *options) check() error {
	if o.shed {
		o.route.Shed = new(Shed)
	}
	switch {
	case len(o.limits) == 0 && o.rules == "" && !o.shed:
		return usage.Error("gateway: nothing is limited; write -limit '100/min by address', -rules FILE or -shed")
	case len(o.limits) > 0 && o.rules != "":
		return usage.Error("gateway: -limit and -rules: write the limits into the file")
	case o.rules != "" && len(o.trust) > 0:
		return usage.Error(`gateway: -trust and -rules: write "proxies" into the file`)
	case o.instances < 1:
		return usage.Errorf("gateway: -instances %d: must be at least 1", o.instances)
	case o.Limits.MaxBody < 0:
		return usage.Errorf("gateway: -max-body %d: must not be below zero", o.Limits.MaxBody)
	case o.Drain.Delay < 0:
		return usage.Errorf("gateway: -delay %v: must not be below zero", o.Drain.Delay)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"refresh", o.refresh}, {"timeout", o.route.Timeout}, {"idle", o.route.Idle}, {"drain", o.Drain.Timeout}} {
		if d.d <= 0 {
			return usage.Errorf("gateway: -%s %v: must be above zero", d.name, d.d)
		}
	}
	return nil
}

// together refuses flags that would do nothing without another one.
func (o *options) together() error {
	for _, name := range o.given {
		switch {
		case (name == "instances" || name == "away") && strings.HasPrefix(stores.URL(o.store, "memory:"), "memory:"):
			return usage.Errorf("gateway: -%s is for a store in the network; write -store URL too, or leave it out", name)
		case name == "refresh" && o.rules == "":
			return usage.Error("gateway: -refresh is for -rules, which is missing")
		}
	}
	return nil
}

// readTo reads the URLs of the service.
func (o *options) readTo(*texts) error {
	if len(o.route.To) == 0 {
		return usage.Error("gateway: -to is missing; write where requests go, as in -to http://127.0.0.1:3000")
	}
	for _, text := range o.route.To {
		if _, err := upstream.Parse(text); err != nil {
			return usage.Errorf("gateway: -to %s: %v", words.BadURL(text), err)
		}
	}
	return nil
}

func (o *options) readTrust(t *texts) (err error) {
	o.trust, err = networksOf("-trust", t.trust)
	return err
}

func (o *options) readAway(t *texts) error {
	away, ok := map[string]store.Fallback{"share": store.FallbackLocal, "pass": store.FallbackAllow, "refuse": store.FallbackDeny}[t.away]
	if !ok {
		return usage.Errorf("gateway: -away %s: must be share, pass or refuse", words.Quote(t.away))
	}
	o.away, o.awayWord = away, t.away
	return nil
}

func (o *options) readHeaders(t *texts) error {
	form, ok := map[string]throttlehttp.Headers{
		"draft": throttlehttp.Draft, "triple": throttlehttp.Triple, "x-triple": throttlehttp.XTriple,
		"retry-after": throttlehttp.OnlyRetryAfter, "silent": throttlehttp.Silent,
	}[t.headers]
	if !ok {
		return usage.Errorf("gateway: -headers %s: must be draft, triple, x-triple, retry-after or silent", words.Quote(t.headers))
	}
	o.Headers = form
	return nil
}

func (o *options) readIdentity(t *texts) (err error) {
	if t.identity == "" {
		return nil
	}
	name, from, found := strings.Cut(t.identity, " from ")
	if !found || strings.TrimSpace(name) == "" {
		return usage.Errorf("gateway: -identity %s: must be like 'X-Customer from 10.0.0.0/8'", words.Quote(t.identity))
	}
	o.Identity.Header = strings.TrimSpace(name)
	o.Identity.From, err = networksOf("-identity", strings.ReplaceAll(from, " ", ""))
	return err
}

func (o *options) readListen(t *texts) (err error) {
	l := Listen{Addr: t.listen}
	if !words.IsHostPort(t.listen) {
		return usage.Errorf("gateway: -listen %s: must be HOST:PORT, as 127.0.0.1:8080, or :80 for all addresses%s", words.Quote(t.listen), words.Brackets(t.listen))
	}
	if t.cert != "" || t.key != "" || t.clientCA != "" {
		if t.cert == "" || t.key == "" {
			return usage.Error("gateway: TLS needs both -cert and -key")
		}
		l.TLS = &TLS{Cert: t.cert, Key: t.key, ClientCA: t.clientCA}
		if err := l.TLS.files(nil).Load(time.Now()); err != nil {
			return usage.Errorf("gateway: -cert, -key, -client-ca: %v", err)
		}
	}
	l.ProxyProtocol, err = networksOf("-proxy-protocol", t.proxyProtocol)
	o.Listen = []Listen{l}
	return err
}

// networksOf reads addresses and networks with commas between them.
func networksOf(name, text string) (all rules.Networks, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(one)
		if a, notOne := netip.ParseAddr(one); err != nil && notOne == nil && a.Zone() == "" {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, usage.Errorf("gateway: %s %s: must be an address or a network, as 10.0.0.0/8", name, words.Quote(one))
		}
		all = append(all, p)
	}
	return all, nil
}

// deadline is that of a decision by a store in the network.
const deadline = 50 * time.Millisecond

// open opens the store, behind a circuit breaker if it is remote.
func (o *options) open(ctx context.Context, log *slog.Logger) (*stores.Named, error) {
	s, err := stores.Open(ctx, stores.URL(o.store, "memory:"), stores.Options{
		Command: "gateway", Given: stores.Given(o.store), Timeout: 5 * time.Second, Deadline: deadline, InProcess: true,
	})
	switch {
	case err != nil || !s.Remote:
		return s, err
	case s.Parted() && len(o.limits) > 1:
		s.Close()
		return nil, usage.Errorf("gateway: %s: slots puts the keys of several -limit in different slots of Redis, which it cannot decide together; leave slots out", stores.Given(o.store))
	}
	g := &store.Guard{Store: s.Store, Fallback: o.away, Instances: o.instances, Timeout: deadline}
	absence := &stores.Absence{Log: log, Name: s.Name, Away: o.awayWord, Guard: g, Finder: s.Finder()}
	g.OnState = absence.OnState
	s.Store = g
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		stores.Probe(running, g) // so that its absence is said now, and not with the first request
		absence.Run(running)
	})
	end := s.Close
	s.Close = func() {
		stop()
		ended.Wait()
		end()
	}
	return s, nil
}
