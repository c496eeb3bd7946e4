// Package serve is the command 'throttle serve': it runs the roles that its files
// have, in one process.
package serve

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/admin"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/recent"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/store"
)

const help = `throttle serve runs a gateway with rate limits, the rate limit service of Envoy, a proxy
for callers of limited APIs (egress), and the listener of their operators.

Usage: throttle serve FILE...

The files are YAML or JSON, see docs/serve.md; 'throttle check FILE' checks them,
and 'throttle schema' prints their JSON schema. Each section is in one file.
It listens where the files say, and nowhere else. Logs are on standard error.

The rules, the routes and the log level change while it runs: when a file does,
or at SIGHUP. A bad file is refused whole, and the old one stays in use. It starts
without its store, and without the URL or the management server of its rules, and
says so. At SIGTERM it goes on for drain.delay, takes no more connections, and
answers what is in flight; a second signal kills. FILE is - for standard input.

Examples:
  throttle serve gateway.yaml
  throttle serve gateway.yaml admin.yaml
`

// program is the program that runs.
type program struct {
	names []string
	log   *slog.Logger
	flush func() // of log
	// journal keeps what is logged about the rules and the store.
	journal admin.Journal
	level   *slog.LevelVar
	began   *config.File // as it was at the start
	// signals are caught from the start on.
	signals operate.Signals
	loaded  atomic.Pointer[loaded]

	sockets *operate.Sockets
	sources *sources
	storage *storage
	control *admit.Control
	counter *admit.Counter
	recent  *recent.Decisions // nil: there is no admin role, so nobody looks
	peers   *recent.Peers     // nil: there are no others
	// latency records how long decisions took, from when the metrics are made.
	latency atomic.Pointer[func(admit.Event)]
	gateway *gateway.Gateway   // nil: no such role
	envoy   *envoyRole         // nil: no such role
	egress  *egressRole        // nil: no such role
	admin   *adminRole         // nil: no such role
	own     *certificate.Files // of the admin listener; nil: none
	// listening are the sockets of the gateway.
	listening []net.Listener

	reloading sync.Mutex // guards the reading of the files
}

// Run serves until ctx ends.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	names, err := usage.ParseFlags(flag.NewFlagSet("serve", flag.ContinueOnError), args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) == 0:
		return usage.Error("serve: no file; write 'throttle serve FILE'")
	}
	operate.OutliveReaders()
	p := &program{names: names, signals: operate.Catch(), counter: new(admit.Counter), flush: func() {}}
	defer func() { p.flush() }()
	switch err := p.open(ctx, stdin, stderr); {
	case errors.Is(err, errToldToEnd):
		p.log.Info("ended before it served")
		return nil
	case err != nil:
		return flawed(err)
	}
	return p.serve(ctx)
}

// errToldToEnd ends a program that was told to end while it opened what it needs: the rules
// may not be there, and a drain would let requests in.
var errToldToEnd = errors.New("serve: told to end")

// open reads the files, and opens the store, the sources of the rules, and the
// sockets.
func (p *program) open(ctx context.Context, stdin io.Reader, stderr io.Writer) (err error) {
	if err := p.read(stdin); err != nil {
		return err
	}
	if err := cmp.Or(checkWrites(p.began), checkWritable(p.began)); err != nil {
		return err
	}
	p.level = new(slog.LevelVar)
	p.log, p.flush = logger(p.began, p.level, stderr)
	if p.sockets, err = operate.Inherit(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.sockets.Close()) }()
	kept := p.journal.Logger(p.log)
	if p.storage, err = openStore(ctx, p.began, kept); err != nil {
		return err
	}
	if p.sources, err = openSources(ctx, p.began, p.storage.shared(ctx, p.began, kept), kept); err != nil {
		p.storage.close()
		return err
	}
	if a := p.began.Admin; a != nil {
		p.recent = &recent.Decisions{Show: a.ShowKeys, Remote: p.storage.remote != nil}
		p.sources.follow(p.recent.Prepare)
		if shared := p.storage.topKeys(p.began); shared != nil {
			p.peers = &recent.Peers{Shared: shared, Decisions: p.recent}
		}
	}
	p.control = &admit.Control{Store: p.storage, Rules: p.sources.live(), InFlight: new(store.InFlight), OnEvent: p.onEvent(admit.Log(p.log, 10))}
	switch g, e := p.began.Gateway, p.began.Envoy; {
	case g != nil:
		p.control.Spread = g.Spread
	case e != nil:
		p.control.Spread = e.Spread
	}
	if err = p.openRoles(ctx); err != nil {
		err = errors.Join(err, p.closeRoles())
		p.sources.end()
		p.storage.close()
		return err
	}
	for _, name := range p.sockets.Left() {
		p.log.Warn("a socket of the service manager is not used", "socket", name)
	}
	return nil
}

// closeRoles closes the sockets that were opened before one could not be.
func (p *program) closeRoles() error {
	var errs []error
	for _, l := range p.listening {
		errs = append(errs, l.Close())
	}
	if p.envoy != nil {
		errs = append(errs, p.envoy.listener.Close())
	}
	if p.egress != nil {
		errs = append(errs, p.egress.listener.Close())
	}
	return errors.Join(errs...)
}

func (p *program) onEvent(log func(admit.Event)) func(admit.Event) {
	return func(e admit.Event) {
		p.counter.OnEvent(e)
		log(e)
		if p.recent != nil {
			p.recent.OnEvent(&e)
		}
		if record := p.latency.Load(); record != nil {
			(*record)(e)
		}
	}
}

// openRoles opens the sockets of the roles, all or none.
func (p *program) openRoles(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return errToldToEnd
	}
	if p.began.Gateway != nil {
		if err := p.openGateway(ctx); err != nil {
			return err
		}
	}
	if p.began.Envoy != nil {
		if p.envoy, err = p.openEnvoy(ctx); err != nil {
			return err
		}
	}
	if p.began.Egress != nil {
		if p.egress, err = p.openEgress(ctx); err != nil {
			return err
		}
	}
	if p.began.Admin != nil {
		p.admin, err = p.openAdmin(ctx)
	}
	return err
}

// serve runs the roles until ctx ends or one of them fails, and then drains.
func (p *program) serve(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	admins, end := context.WithCancel(context.WithoutCancel(ctx)) // they see the drain
	defer end()
	var background sync.WaitGroup
	background.Go(func() { p.storage.look(running) })
	background.Go(func() { p.sources.run(running) })
	background.Go(func() { p.watch(running) })
	if p.peers != nil {
		background.Go(func() { p.peers.Run(running) })
	}
	p.say()
	background.Go(func() { p.process().Run(running, p.signals, "serving "+words.Enumerate(p.names)) })
	ended := make(chan error, 1)
	go func() {
		ended <- p.serveAdmin(admins, running)
		stop()
	}()
	err := p.serveRoles(running, stop)
	background.Wait()
	end()
	err = errors.Join(err, <-ended)
	err = errors.Join(err, p.storage.save(ctx))
	p.storage.close()
	p.log.Info("ended", "lost", err != nil)
	return err
}

// serveRoles serves callers until ctx ends, or a role fails, which stops the others.
func (p *program) serveRoles(ctx context.Context, stop func()) error {
	ended := make(chan error, 3)
	go func() { ended <- p.serveGateway(ctx) }()
	go func() { ended <- p.serveEnvoy(ctx) }()
	go func() { ended <- p.serveEgress(ctx) }()
	err := <-ended
	stop()
	return errors.Join(err, <-ended, <-ended)
}

func (p *program) serveGateway(ctx context.Context) error {
	if p.gateway == nil {
		<-ctx.Done()
		return nil
	}
	return p.gateway.Serve(ctx)
}

// process is what signals do.
func (p *program) process() *operate.Process {
	pulse := &operate.Pulse{Probe: p.probe}
	q := &operate.Process{Reload: p.reload, Healthy: pulse.Healthy, Log: p.log}
	if p.storage.path != "" {
		q.Snapshot, q.SnapshotEvery = p.storage.save, p.began.Store.Every
	}
	return q
}

// say says what is served, and how much memory it may take.
func (p *program) say() {
	all := []any{"store", p.storage.name}
	if p.gateway != nil {
		all = append(all, "gateway", addresses(p.listening))
	}
	if p.envoy != nil {
		all = append(all, "envoy", p.envoy.listener.Addr().String())
	}
	if p.egress != nil {
		all = append(all, "egress", p.egress.listener.Addr().String())
	}
	if p.admin != nil {
		all = append(all, "admin", p.admin.listener.Addr().String())
	}
	switch {
	case p.gateway == nil && p.envoy == nil && p.egress != nil: // rules are for the others
	case p.sources.stack == nil:
		all = append(all, "rules", "none: nobody is limited")
	case p.sources.version() == "":
		all = append(all, "rules", "none yet: nobody is limited")
	default:
		all = append(all, "rules", p.sources.version())
	}
	if p.storage.memory != nil {
		all = append(all, "store_memory_mb", 32)
	}
	p.log.Info("serving", all...)
}

func addresses(all []net.Listener) (list []string) {
	for _, l := range all {
		list = append(list, l.Addr().String())
	}
	return list
}

// logger returns the logger of a file, and what is to be called at the end.
func logger(f *config.File, level *slog.LevelVar, w io.Writer) (log *slog.Logger, flush func()) {
	setLevel(f, level)
	o := &slog.HandlerOptions{Level: level}
	return operate.Log(w, func(w io.Writer) slog.Handler {
		if f.Log != nil && f.Log.Format == "text" {
			return slog.NewTextHandler(w, o)
		}
		return slog.NewJSONHandler(w, o)
	})
}

func setLevel(f *config.File, level *slog.LevelVar) {
	level.Set(slog.LevelInfo)
	if f.Log != nil && f.Log.Level != "" {
		_ = level.UnmarshalText([]byte(f.Log.Level)) // the decoder knows these words
	}
}

// build is the version of the program.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	return info.Main.Version
}

// variables are those of the environment.
func variables(name string) (string, bool) { return os.LookupEnv(name) }
