package egress

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ca"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle egress is a proxy for the callers of limited APIs, in any language: their
calls are paced, bounded and retried with backoff, and the limit is learnt.

Usage: throttle egress -to [NAME=]URL [flags]

Callers use http://127.0.0.1:8090/NAME/ in place of URL; without NAME it is the host
of URL. Or they use it as their proxy for http:// URLs of that host, which are then
sent by the scheme of URL. A call waits for its turn, for -wait at most, and is
retried as by throttlehttp.Transport. Answers of the proxy itself have a field
Throttle-Generated. The page at http://127.0.0.1:8090/throttle/ shows what is learnt.

Flags:
  -to [NAME=]URL
                 an API, as https://api.github.com or github=https://api.github.com;
                 several -to are several APIs, each with a limit of its own
  -listen ADDR   where it listens, default 127.0.0.1:8090; :8090 is every address of
                 this machine: anyone who can reach it may call the APIs
  -account header:NAME
                 the header field whose values have a limit each, as header:Authorization
  -rate RATE     the limit of each API where it is known, as '4/s' or '100/min burst 10';
                 else it is learnt
  -most N        bound the calls in flight, default none
  -wait D        longest wait of a call for its turn and between tries, default 1m; a
                 call lowers it by a field Throttle-Max-Wait
  -dialect NAME  how the APIs report their limits, default by their hosts
  -intercept HOST[,HOST]
                 pace the HTTPS requests of programs that use HTTPS_PROXY to these
                 hosts, each that of an API by https; see 'throttle ca'
  -ca DIR        where the CA for that is, default that of 'throttle ca'; without
                 -intercept it is for all APIs by https
  -tunnel HOST[,HOST]
                 other hosts that programs may reach by CONNECT, unseen: NAME, *.NAME,
                 *, an address or a network, each with :PORT if that is not 443
  -private       permit private addresses, which a name may resolve to
  -timeout D     how long an API may take to begin its answer, default 10m
  -delay D       how long it goes on accepting at the end, default 0s
  -drain D       how long calls that wait or are in flight may take at the end,
                 default 10s

Examples:
  throttle egress -to https://api.github.com
  throttle egress -to github=https://api.github.com -to https://api.openai.com -account header:Authorization
  throttle egress -to https://api.github.com -intercept api.github.com
  throttle egress -to legacy=http://old.internal:8000 -private -rate 4/s -most 2
`

// options is what the command line asks for.
type options struct {
	Config
	Flags
	to     []string
	listen string
	ca     string
	hosts  string
	tunnel string
}

// Run serves until ctx ends.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsFrom(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	operate.OutliveReaders()
	signals := operate.Catch()
	log, flush := operate.Log(stderr, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) })
	defer flush()
	o.Log = log
	p, err := New(o.Config)
	if flaw := (*Flaw)(nil); errors.As(err, &flaw) {
		return usage.Errorf("egress: %s", o.inFlags(flaw))
	}
	if err := p.Load(time.Now()); err != nil {
		return usage.Errorf("egress: -ca: %s", err.(*Flaw).What)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		if in := (*net.OpError)(nil); errors.As(err, &in) {
			err = in.Err // which does not say the address again
		}
		return exit.Failf("egress: -listen %s: %v", o.listen, err)
	}
	status := p.status(l.Addr().String())
	fmt.Fprintf(&operate.LogWriter{To: stderr}, "throttle egress: %s\n", status)
	if at, err := netip.ParseAddrPort(l.Addr().String()); err == nil && !at.Addr().IsLoopback() {
		log.Warn("other machines may call the APIs through this one", "listen", at)
	}
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { (&operate.Process{Reload: p.reload(), Log: log}).Run(running, signals, status) })
	err = p.Serve(ctx, l)
	stop()
	ended.Wait()
	return err
}

// status says where the APIs are.
func (p *Proxy) status(at string) string {
	var all []string
	for _, a := range p.apis {
		all = append(all, fmt.Sprintf("http://%s/%s/ to %s", at, a.name, a.base))
	}
	if p.connects != nil {
		all = append(all, fmt.Sprintf("HTTPS_PROXY=http://%s for %s", at, authorities(p.connects.Hosts)))
	}
	return strings.Join(all, ", ") + "; page http://" + at + "/" + pageName + "/"
}

// reload returns what SIGHUP does: the authority is read again. It is nil if there is none.
func (p *Proxy) reload() func(context.Context) error {
	if p.connects == nil {
		return nil
	}
	return func(context.Context) error { return p.Load(time.Now()) }
}

// inFlags is a mistake in words of the command line.
func (o *options) inFlags(f *Flaw) string {
	if what, ok := strings.CutPrefix(f.Path, "intercept"); ok {
		what, _, _ = strings.Cut(strings.TrimPrefix(what, "."), "[")
		return map[string]string{"": "-ca", "hosts": "-intercept", "tunnel": "-tunnel"}[what] + ": " + f.What
	}
	if what := o.Words(f); what != "" {
		return what
	}
	if !strings.HasSuffix(f.Path, ".url") {
		return "-to: the name " + strings.TrimPrefix(f.Path, "apis.") + ": " + f.What + "; write NAME=URL"
	}
	return "-to: the URL of " + strings.TrimSuffix(strings.TrimPrefix(f.Path, "apis."), ".url") + ": " + f.What
}

// optionsFrom reads the arguments.
func optionsFrom(args []string) (*options, error) {
	o := new(options)
	flags := o.flags()
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(names) > 0:
		return nil, usage.Errorf("egress: %s is too much; write 'throttle egress -to URL [flags]'", words.Quote(names[0]))
	case len(o.to) == 0:
		return nil, usage.Error("egress: -to is missing; write the API that is called, as in -to https://api.github.com")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.readIntercept(); err != nil {
		return nil, err
	}
	o.APIs = map[string]API{}
	for _, text := range o.to {
		name, a, err := o.api(text)
		if err != nil {
			return nil, err
		}
		if _, twice := o.APIs[name]; twice {
			return nil, usage.Errorf("egress: -to: the name %s occurs twice; write NAME=URL", words.Quote(name))
		}
		o.APIs[name] = a
	}
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("egress", flag.ContinueOnError)
	flags.Func("to", "", func(text string) error { o.to = append(o.to, text); return nil })
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8090", "")
	o.Define(flags)
	flags.StringVar(&o.ca, "ca", "", "")
	flags.StringVar(&o.hosts, "intercept", "", "")
	flags.StringVar(&o.tunnel, "tunnel", "", "")
	flags.BoolVar(&o.API.Private, "private", false, "")
	flags.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "")
	flags.DurationVar(&o.Drain.Delay, "delay", 0, "")
	flags.DurationVar(&o.Drain.Timeout, "drain", 10*time.Second, "")
	return flags
}

// check checks what is of no API alone.
func (o *options) check() error {
	if err := o.Check(); err != nil {
		return err
	}
	if !words.IsHostPort(o.listen) {
		return usage.Errorf("egress: -listen %s: must be HOST:PORT, as 127.0.0.1:8090, or :8090 for all addresses%s", words.Quote(o.listen), words.Brackets(o.listen))
	}
	if o.Drain.Delay < 0 {
		return usage.Errorf("egress: -delay %v: must not be below zero", o.Drain.Delay)
	}
	for name, d := range map[string]time.Duration{"timeout": o.Timeout, "drain": o.Drain.Timeout} {
		if d <= 0 {
			return usage.Errorf("egress: -%s %v: must be above zero", name, d)
		}
	}
	return nil
}

// readIntercept reads what CONNECT reaches: -intercept, or -ca for all APIs by https.
func (o *options) readIntercept() (err error) {
	if o.hosts == "" && o.ca == "" {
		if o.tunnel != "" {
			return usage.Error("egress: -tunnel is for -intercept or -ca, which are missing")
		}
		return nil
	}
	if o.ca == "" {
		if o.ca, err = ca.Dir(); err != nil {
			return usage.Error("egress: -intercept: there is no configuration directory in which a CA could be; write -ca DIR")
		}
	}
	o.Intercept = &Intercept{CA: o.ca, Hosts: Split(o.hosts), Tunnel: Split(o.tunnel)}
	return nil
}

// api reads NAME=URL, or a URL, whose name is its host.
func (o *options) api(text string) (name string, a API, err error) {
	a = o.API
	before, _, _ := strings.Cut(text, "://")
	if name, a.URL, _ = strings.Cut(text, "="); !strings.Contains(before, "=") {
		a.URL = text
		u, what := parseURL(text)
		if what != "" {
			return "", a, usage.Errorf("egress: -to %s: %s", words.BadURL(text), what)
		}
		name = strings.ToLower(strings.Trim(u.Hostname(), "."))
	}
	return name, a, nil
}
