// Package runner is the command 'throttle run': it runs a program whose HTTPS calls of limited
// APIs are paced and retried, by an egress proxy in this process and an authority of the run's
// own.
package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/egress"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle run runs a program, in any language, whose HTTPS calls of limited APIs are
paced, bounded and retried with backoff; the limit is learnt.

Usage: throttle run -host HOST[,HOST] [flags] -- COMMAND ARGS...

The program uses a proxy of this process by HTTPS_PROXY, and trusts its certificates
by SSL_CERT_FILE and the like: curl, git, Python, Ruby, Go and Node.js 24 do so by
themselves. Their authority is for this run and these hosts; its key is never
written. Other hosts are reached as ever. At the end one line says how many calls
were made. The exit code is that of the program, 128+N if signal N ended it, 127 if it
is not found, 126 if it cannot be run.

Flags:
  -host HOST[,HOST]
                 the hosts of the APIs, as api.github.com; HOST:PORT if that is not 443.
                 Each has a limit of its own
  -only          refuse what goes to other hosts through the proxy
  -account header:NAME
                 the header field whose values have a limit each, as header:Authorization
  -rate RATE     the limit of each API where it is known, as '4/s' or '100/min burst 10';
                 else it is learnt
  -most N        bound the calls in flight of each account, default none
  -wait D        longest wait of a call for its turn and between tries, default 1m
  -dialect NAME  how the APIs report their limits, default by their hosts
  -q             do not say at the end how many calls were made
  -v             log what is refused, retried and given up

Examples:
  throttle run -host api.github.com -account header:Authorization -- python job.py
  throttle run -host api.example.com -rate 4/s -- sh -c 'for i in 1 2 3; do curl https://api.example.com/$i; done'
`

// grace is how long calls of processes that the program has left behind may take.
const grace = 2 * time.Second

// options is what the command line asks for.
type options struct {
	egress.Flags
	hosts         []intercept.Target
	only          bool
	quiet, detail bool
	command       []string
}

// Run runs a program to its end. The error is an exit.Status for what the program ended with.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsFrom(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	signals := catch()
	defer signals.release()
	log, flush := o.log(stderr)
	defer flush()
	x, err := o.newRun(log)
	if err != nil {
		return err
	}
	defer x.remove()
	if !o.quiet {
		x.warn(&operate.LogWriter{To: stderr})
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx)) // the program outlives ctx
	served := make(chan error, 1)
	go func() { served <- x.proxy.Serve(serving, x.listener) }()
	err = (&child{args: o.command, env: x.env, stdin: stdin, stdout: stdout, stderr: stderr}).run(ctx, signals)
	end()
	<-served // the error is about calls of processes that are left behind
	if status := (exit.Status{}); !o.quiet && (!errors.As(err, &status) || status.Text == "") {
		said := &operate.LogWriter{To: stderr}
		fmt.Fprintf(said, "throttle run: %s\n", x.tally.String())
		said.Flush()
	}
	return err
}

// log is where the proxy logs: nowhere without -v.
func (o *options) log(stderr io.Writer) (log *slog.Logger, flush func()) {
	if !o.detail {
		return slog.New(slog.DiscardHandler), func() {}
	}
	return operate.Log(stderr, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) })
}

// run is what a program is run with.
type run struct {
	proxy    *egress.Proxy
	listener net.Listener
	tally    tally
	dir      string   // of the certificates
	env      []string // of the program
	unused   string   // the variable of a proxy that is not used; empty: none
}

// newRun makes the proxy and its authority, and listens.
func (o *options) newRun(log *slog.Logger) (x *run, err error) {
	x = new(run)
	authority, err := o.authority()
	if err != nil {
		return nil, exit.Failf("run: %v", err)
	}
	token := rand.Text()
	if x.proxy, err = o.proxy(authority, token, log, x.tally.onEvent); err != nil {
		return nil, err
	}
	if x.dir, err = os.MkdirTemp("", "throttle-run-"); err != nil { // of mode 0700
		return nil, exit.Failf("run: %v", err)
	}
	e := environment{os.Environ()}
	trust, err := e.trust(x.dir, authority.Certificate())
	if err == nil {
		x.listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		x.remove()
		return nil, err
	}
	x.unused = e.unused()
	x.env = slices.Concat(e.all, trust, e.proxy("http://throttle:"+token+"@"+x.listener.Addr().String(), o.hosts))
	return x, nil
}

// remove removes the certificates.
func (x *run) remove() { _ = os.RemoveAll(x.dir) } // what is left is not secret

// warn says what of the environment has no effect.
func (x *run) warn(w io.Writer) {
	if x.unused != "" {
		fmt.Fprintf(w, "throttle run: the proxy that %s names is not used: hosts are reached without it\n", x.unused)
	}
}

// authority makes one for the hosts, in memory.
func (o *options) authority() (*intercept.Authority, error) {
	var names []string
	for _, t := range o.hosts {
		names = append(names, t.Host)
	}
	slices.Sort(names)
	key, err := intercept.NewKey()
	if err != nil {
		return nil, err
	}
	c, err := intercept.NewCertificate(key, slices.Compact(names), time.Now())
	if err != nil {
		return nil, err
	}
	a := new(intercept.Authority)
	return a, a.Use(c, key)
}

// proxy makes the proxy.
func (o *options) proxy(a *intercept.Authority, token string, log *slog.Logger, told tellFunc) (*egress.Proxy, error) {
	c := egress.Config{
		APIs: map[string]egress.API{}, Intercept: &egress.Intercept{Authority: a, Token: token},
		Open: !o.only, OnEvent: told, Log: log, Drain: egress.Drain{Timeout: grace},
	}
	for i, t := range o.hosts {
		api := o.API
		api.URL, api.Private = "https://"+t.Authority(), true // the program could reach it too
		c.APIs[apiName(t, i)] = api
	}
	p, err := egress.New(c)
	if err == nil {
		err = p.Load(time.Now())
	}
	if flaw := (*egress.Flaw)(nil); errors.As(err, &flaw) {
		if what := o.Words(flaw); what != "" {
			return nil, usage.Errorf("run: %s", what)
		}
		return nil, usage.Errorf("run: -host: %s", flaw.What)
	}
	return p, err
}

// apiName names the API of the host at index i, for the log: by its host, unless that
// cannot be a name, as an IPv6 address.
func apiName(t intercept.Target, i int) string {
	name := strings.ReplaceAll(t.Authority(), ":", ".")
	if egress.CheckName(name) != "" {
		return fmt.Sprintf("HOST-%d", i+1) // no other, as hosts are in lower case
	}
	return name
}

// optionsFrom reads the arguments.
func optionsFrom(args []string) (*options, error) {
	o, hosts := new(options), ""
	before, dashes := args, slices.Index(args, "--")
	if dashes >= 0 {
		before, o.command = args[:dashes], args[dashes+1:]
	}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&hosts, "host", "", "")
	flags.BoolVar(&o.only, "only", false, "")
	flags.BoolVar(&o.quiet, "q", false, "")
	flags.BoolVar(&o.detail, "v", false, "")
	o.Define(flags)
	names, err := usage.ParseFlags(flags, before)
	switch {
	case err != nil:
		return nil, err
	case dashes < 0:
		return nil, usage.Error("run: -- is missing; write 'throttle run -host HOST -- COMMAND ARGS'")
	case len(names) > 0:
		return nil, usage.Errorf("run: %s is too much before --; write 'throttle run -host HOST -- COMMAND ARGS'", words.Quote(names[0]))
	case len(o.command) == 0 || o.command[0] == "":
		return nil, usage.Error("run: no command after --; write 'throttle run -host HOST -- COMMAND ARGS'")
	case hosts == "":
		return nil, usage.Error("run: -host is missing; write the host of the API that is called, as in -host api.github.com")
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o, o.readHosts(hosts)
}

// readHosts reads -host.
func (o *options) readHosts(text string) error {
	for _, one := range egress.Split(text) {
		t, err := intercept.ParsePermitted(one)
		switch {
		case err != nil:
			return usage.Errorf("run: -host %s: %v", words.Quote(one), err)
		case slices.Contains(o.hosts, t):
			return usage.Errorf("run: -host %s: occurs twice", words.Quote(one))
		}
		if name, value := bypassed(t, os.Getenv); name != "" {
			return usage.Errorf("run: -host %s: programs go past the proxy, as %s is %s; take the host out of that", words.Quote(one), name, words.Quote(value))
		}
		o.hosts = append(o.hosts, t)
	}
	return nil
}
