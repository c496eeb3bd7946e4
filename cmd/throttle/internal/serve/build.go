package serve

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// maxAnswer bounds the bytes of the file of a static answer.
const maxAnswer = 1 << 20

var headers = map[string]throttlehttp.Headers{
	"": throttlehttp.Draft, "draft": throttlehttp.Draft, "triple": throttlehttp.Triple, "x-triple": throttlehttp.XTriple,
	"x-triple-unix": throttlehttp.XTripleUnix, "retry-after": throttlehttp.OnlyRetryAfter,
	"remaining": throttlehttp.OnlyRemaining, "silent": throttlehttp.Silent,
}

// Gateway returns what the gateway of a file does, without its Control and its
// sockets.
func Gateway(f *config.File) (c gateway.Config, err error) {
	g := f.Gateway
	c = gateway.Config{
		Headers: headers[g.Headers], Identity: believed(g.Identity), Priority: believed(g.Priority), Underscores: g.Underscores,
		Limits: gateway.Limits{
			MaxHeader: int(g.MaxHeader), MaxBody: int64(g.MaxBody), MaxConns: g.MaxConns, MaxConnsPerAddress: g.MaxOfAddress,
			HeaderTimeout: g.HeaderIn, KeepAlive: g.KeepAlive,
		},
		Drain: drain(f),
	}
	if len(g.Proxies) > 0 {
		c.Proxies = rules.Proxies{Trusted: g.Proxies, Header: g.ProxyHeader}
	}
	for _, s := range g.Listen {
		l := gateway.Listen{Addr: string(s.Address), ProxyProtocol: s.Proxies}
		if s.TLS != nil {
			l.TLS = &gateway.TLS{Cert: string(s.TLS.Cert), Key: string(s.TLS.Key), ClientCA: string(s.TLS.ClientCA)}
		}
		c.Listen = append(c.Listen, l)
	}
	c.Routes, err = routes(f)
	return c, err
}

// drain is how the gateway ends. The defaults are those of the file.
func drain(f *config.File) gateway.Drain {
	d := gateway.Drain{Delay: 5 * time.Second, Timeout: 30 * time.Second}
	if f.Drain == nil {
		return d
	}
	if f.Has("drain.delay") {
		d.Delay = f.Drain.Delay
	}
	if f.Drain.Timeout > 0 {
		d.Timeout = f.Drain.Timeout
	}
	return d
}

func believed(b *config.Believed) gateway.Believed {
	if b == nil {
		return gateway.Believed{}
	}
	return gateway.Believed{Header: b.Header, From: b.From}
}

// routes are the routes of the file.
func routes(f *config.File) (all []gateway.Route, err error) {
	for i, r := range f.Gateway.Routes {
		path := fmt.Sprintf("gateway.routes[%d]", i)
		to := gateway.Route{
			Match: r.Match, To: texts(r.To), PassHost: r.PassHost, Timeout: r.Timeout, Idle: r.Idle, MaxBody: int64(r.MaxBody), Upgrades: r.Upgrades,
		}
		if t := r.TLS; t != nil {
			to.TLS = upstreamTLS(t)
		}
		if s := r.Shed; s != nil {
			to.Shed = &gateway.Shed{MaxInFlight: s.MaxInFlight, MaxWaiting: s.MaxWaiting, MaxWait: s.MaxWait}
			if f.Has(path+".shed.max_wait") && s.MaxWait == 0 {
				to.Shed.MaxWait = -1
			}
		}
		if to.Degraded, err = degraded(f, path, r.Degraded); err != nil {
			return nil, err
		}
		if name := r.Switch; name != "" {
			to.Degrade = func(c *rules.Compiled) bool { return c.Switch(name, "", time.Now()).On() }
		}
		all = append(all, to)
	}
	return all, nil
}

func texts(all []config.Upstream) (list []string) {
	for _, u := range all {
		list = append(list, string(u))
	}
	return list
}

func degraded(f *config.File, path string, d *config.Degraded) (*gateway.Degraded, error) {
	if d == nil {
		return nil, nil
	}
	to := &gateway.Degraded{To: texts(d.To), Status: d.Status, Body: []byte(d.Body)}
	if d.Header != nil {
		to.Header = http.Header{}
	}
	for name, value := range d.Header {
		to.Header.Set(name, value)
	}
	if d.File != "" {
		body, err := answer(string(d.File))
		if err != nil {
			return nil, f.Fail(path+".degraded.file", "%v", err)
		}
		to.Body = body
	}
	return to, nil
}

// answer reads the file of a static answer, as each reload does.
func answer(path string) ([]byte, error) {
	f, err := infile.OpenAgain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	body, err := io.ReadAll(io.LimitReader(f, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("longer than 1 MiB")
	}
	return body, err
}
