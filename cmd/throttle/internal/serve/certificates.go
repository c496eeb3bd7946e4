package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/throttleotel"
)

// filesOf are the files of a TLS.
func filesOf(t *config.TLS) *certificate.Files {
	return &certificate.Files{Cert: string(t.Cert), Key: string(t.Key), ClientCA: string(t.ClientCA)}
}

// Warnings names the certificates of listeners and for upstreams that have expired, or
// will within 30 days, and the file that this process could not write, which Check lets
// pass: another user or machine may serve. Each begins with its place.
func Warnings(f *config.File, now time.Time) (all []string) {
	if err := checkWritable(f); err != nil {
		all = append(all, err.Error())
	}
	warn := func(path string, t *config.TLS) {
		if t == nil || t.Cert == "" {
			return
		}
		if files := filesOf(t); files.Load(now) == nil && files.Doubt(now) != "" {
			all = append(all, f.Fail(path+".tls.cert", "%s %s", t.Cert, files.Doubt(now)).Error())
		}
	}
	if f.Admin != nil {
		warn("admin.listen", f.Admin.Listen.TLS)
	}
	if f.Envoy != nil {
		warn("envoy.listen", f.Envoy.Listen.TLS)
	}
	if f.Rules != nil && f.Rules.XDS != nil && f.Rules.XDS.TLS != nil {
		warn("rules.xds", &config.TLS{Cert: f.Rules.XDS.TLS.Cert, Key: f.Rules.XDS.TLS.Key})
	}
	if f.Gateway == nil {
		return all
	}
	for i, s := range f.Gateway.Listen {
		warn(fmt.Sprintf("gateway.listen[%d]", i), s.TLS)
	}
	for i, r := range f.Gateway.Routes {
		if r.TLS != nil {
			warn(fmt.Sprintf("gateway.routes[%d]", i), &config.TLS{Cert: r.TLS.Cert, Key: r.TLS.Key})
		}
	}
	return all
}

// certificates is the state of all certificates of listeners.
func (p *program) certificates() throttleotel.Config {
	all := []*certificate.Files{}
	if p.gateway != nil {
		all = append(all, p.gateway.Certificates()...)
	}
	if p.own != nil {
		all = append(all, p.own)
	}
	if p.envoy != nil && p.envoy.own != nil {
		all = append(all, p.envoy.own)
	}
	c := throttleotel.Config{OK: true}
	for _, f := range all {
		f.At(time.Now()) // also where there are no handshakes
		s := f.State()
		c.OK = c.OK && s.Err == nil
		c.Version = strings.Trim(c.Version+" "+s.Version, " ")
		c.Age = max(c.Age, time.Since(s.Confirmed))
	}
	return c
}
