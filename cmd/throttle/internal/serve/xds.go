package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/xds"
	"github.com/throttle-go/throttle/rules"
)

const (
	// everyServer is how often the state of the connection to a management server becomes
	// the status of its rules. What it sends is put into use at once.
	everyServer = 10 * time.Second
	// waitServer bounds the wait for what it sends first.
	waitServer = 2 * time.Second
)

// openServer adds the rules of a management server, below all others, and connects to it,
// until end is called.
func (s *sources) openServer(ctx context.Context, f *config.File, log *slog.Logger) error {
	x := f.Rules.XDS
	if err := checkServer(f, log); err != nil {
		return err
	}
	client := &xds.Client{Server: string(x.Server), Node: x.Node, Log: log}
	if x.TLS != nil {
		client.TLS = func() (*tls.Config, error) { return serverTLS(x.TLS, log) }
	}
	from := &rules.Source{Fetch: client.Fetch, Every: everyServer, Timeout: waitServer, Keep: string(x.Keep)}
	ready := make(chan struct{})
	s.ready = sync.OnceFunc(func() { close(ready) })
	client.Use = func(ctx context.Context) error {
		select {
		case <-ready: // all sources are there, and all that follow them
			return from.Refresh(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.add("xds", client.Server, from)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { client.Run(ctx) })
	s.end = func() {
		cancel()
		running.Wait()
	}
	return nil
}

// serverTLS reads the files of a connection to a management server.
func serverTLS(t *config.UpstreamTLS, log *slog.Logger) (*tls.Config, error) {
	c, err := upstreamTLS(t).Config(log)
	return cmp.Or(c, &tls.Config{MinVersion: tls.VersionTLS12}), err
}

// upstreamTLS are the files of a TLS of a file.
func upstreamTLS(t *config.UpstreamTLS) gateway.UpstreamTLS {
	return gateway.UpstreamTLS{CA: string(t.CA), Cert: string(t.Cert), Key: string(t.Key), ServerName: t.ServerName}
}

// checkServer checks the certificates for a management server.
func checkServer(f *config.File, log *slog.Logger) error {
	if f.Rules == nil || f.Rules.XDS == nil || f.Rules.XDS.TLS == nil {
		return nil
	}
	if _, err := serverTLS(f.Rules.XDS.TLS, log); err != nil {
		return f.Fail("rules.xds.tls", "%v", err)
	}
	return nil
}
