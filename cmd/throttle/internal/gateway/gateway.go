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
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
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
after the requests in flight.

Flags:
  -to URL        where requests go, as in http://127.0.0.1:3000
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
                 commas, as in 10.0.0.0/8; with -rules they stand in the file
  -shed          load shedding: bound the requests in flight by what the service
                 bears, learnt from its latency; 503 beyond
  -store URL     share the limits with other processes, as in 'throttle take';
                 default memory:. Also by THROTTLE_STORE
  -away WHAT     what counts while that store is away: share (each process has
                 1/-instances of the limit; the default), pass or refuse
  -instances N   how many processes share the store, default 1
  -timeout D     how long the service may take to begin its answer, default 1m
  -drain D       how long requests in flight may take at the end, default 10s

Examples:
  throttle gateway -to http://127.0.0.1:3000 -limit '100/min by address'
  throttle gateway -to http://app:3000 -listen :80 -shed -limit '5/s burst 20 by header:X-Api-Key'
  throttle gateway -to http://app:3000 -rules rules.json -store redis://cache -instances 2
`

// options is what the command line asks for.
type options struct {
	to        *url.URL
	listen    string
	limits    []string
	rules     string
	refresh   time.Duration
	trust     rules.Networks
	shed      bool
	store     string
	away      store.Fallback
	instances int
	timeout   time.Duration
	drain     time.Duration
}

// Run serves until ctx ends.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(stdout, help)
		return err
	case err != nil:
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	live, what, err := o.live(ctx, log)
	if err != nil {
		return err
	}
	s, err := o.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.Close()
	control := &admit.Control{Store: s, Rules: live, OnEvent: admit.Log(log, 10)}
	if o.shed {
		control.Shed = new(admit.Shedder)
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return exit.Failf("gateway: -listen %s: %v", o.listen, err)
	}
	fmt.Fprintf(stderr, "throttle gateway: http://%s to %s; %s, in %s\n", listener.Addr(), o.to, what, s.Name)
	return o.serve(ctx, listener, &throttlehttp.Handler{Control: control, Next: o.proxy(live, log)})
}

// serve serves until ctx ends, and then drains.
func (o *options) serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections of callers
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return exit.Failf("gateway: %v", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		server.Close()
		return exit.Failf("gateway: requests were in flight still after -drain %v", o.drain)
	}
	return nil
}

// optionsOf reads the arguments.
func optionsOf(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	to := flags.String("to", "", "")
	trust := flags.String("trust", "", "")
	away := flags.String("away", "share", "")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "")
	flags.Func("limit", "", func(text string) error { o.limits = append(o.limits, text); return nil })
	flags.StringVar(&o.rules, "rules", "", "")
	flags.DurationVar(&o.refresh, "refresh", 5*time.Second, "")
	flags.BoolVar(&o.shed, "shed", false, "")
	flags.StringVar(&o.store, "store", "", "")
	flags.IntVar(&o.instances, "instances", 1, "")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "")
	flags.DurationVar(&o.drain, "drain", 10*time.Second, "")
	names, err := usage.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, usage.Errorf("gateway: %s is too much; write 'throttle gateway -to URL [flags]'", words.Quote(names[0]))
	}
	if err := o.readTo(*to); err != nil {
		return nil, err
	}
	if err := o.readTrust(*trust); err != nil {
		return nil, err
	}
	return o, o.check(*away)
}

func (o *options) check(away string) error {
	switch away {
	case "share":
		o.away = store.FallbackLocal
	case "pass":
		o.away = store.FallbackAllow
	case "refuse":
		o.away = store.FallbackDeny
	default:
		return usage.Errorf("gateway: -away %s: must be share, pass or refuse", words.Quote(away))
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
	case o.refresh <= 0:
		return usage.Errorf("gateway: -refresh %v: must be above zero", o.refresh)
	case o.timeout <= 0:
		return usage.Errorf("gateway: -timeout %v: must be above zero", o.timeout)
	case o.drain <= 0:
		return usage.Errorf("gateway: -drain %v: must be above zero", o.drain)
	}
	return nil
}

// readTo reads the URL of the service.
func (o *options) readTo(text string) error {
	if text == "" {
		return usage.Error("gateway: -to is missing; write where requests go, as in -to http://127.0.0.1:3000")
	}
	to, err := url.Parse(text)
	switch {
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "":
		return usage.Errorf("gateway: -to %s: must be like http://HOST:PORT or https://HOST", words.Quote(text))
	case to.User != nil || to.RawQuery != "" || to.Fragment != "":
		return usage.Errorf("gateway: -to %s: must have no user, no query and no fragment", words.Quote(to.Redacted()))
	}
	o.to = to
	return nil
}

func (o *options) readTrust(text string) error {
	if text == "" {
		return nil
	}
	for _, one := range strings.Split(text, ",") {
		p, err := netip.ParsePrefix(one)
		if a, notOne := netip.ParseAddr(one); err != nil && notOne == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return usage.Errorf("gateway: -trust %s: must be an address or a network, as 10.0.0.0/8", words.Quote(one))
		}
		o.trust = append(o.trust, p)
	}
	return nil
}

// open opens the store, behind a circuit breaker if it is remote.
func (o *options) open(ctx context.Context, log *slog.Logger) (*stores.Named, error) {
	s, err := stores.Open(ctx, stores.URL(o.store, "memory:"), stores.Options{Command: "gateway", Timeout: 5 * time.Second, InProcess: true})
	if err != nil || !s.Remote {
		return s, err
	}
	name := s.Name
	s.Store = &store.Guard{
		Store: s.Store, Fallback: o.away, Instances: o.instances, Timeout: 50 * time.Millisecond,
		OnState: func(err error) {
			if err == nil {
				log.Info("the store is back", "store", name)
			} else {
				log.Warn("the store did not decide", "store", name, "err", err)
			}
		},
	}
	return s, nil
}
