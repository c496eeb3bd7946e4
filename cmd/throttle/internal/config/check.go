package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

// refuse fails the value at a path, if nothing was wrong before.
func (f *files) refuse(path, format string, a ...any) {
	if f.err != nil {
		return
	}
	at, path := nearestPlace(f.places, path)
	text := strings.TrimPrefix(path+": ", ": ") + fmt.Sprintf(format, a...)
	f.fail(at.file, at.line, at.column, "%s", text)
}

// has reports whether a value stands in the file.
func (f *files) has(path string) bool {
	_, ok := f.places[path]
	return ok
}

// check refuses what no field alone shows to be wrong.
func (f *files) check(all []Named, c *File) {
	if c.Gateway == nil && c.Envoy == nil && c.Egress == nil && c.Admin == nil {
		f.fail(all[0].Name, 1, 1, "no role; write gateway:, envoy:, egress: or admin:")
		return
	}
	if c.Store != nil {
		f.checkStore(c.Store)
	}
	if c.Rules != nil {
		f.checkRules(c)
	}
	if c.Gateway != nil {
		if c.Gateway.ProxyHeader != "" && len(c.Gateway.Proxies) == 0 {
			f.refuse("gateway.proxy_header", "is for proxies, which is missing; those of the rules have a header there")
		}
		f.checkRoutes(c.Gateway.Routes)
	}
	if c.Egress != nil {
		f.checkEgress(c)
	}
	if c.Admin != nil {
		f.checkAdmin(c)
	}
	f.checkSockets(c)
	f.checkFiles(all, c)
}

// Remote reports whether the store is in a network.
func (s *Store) Remote() bool { return s != nil && !strings.HasPrefix(string(s.URL), "memory:") }

// DefaultDeadline is that of a store whose file says none.
const DefaultDeadline = 20 * time.Millisecond

func (f *files) checkStore(s *Store) {
	if f.has("store.snapshot_every") && s.Snapshot == "" {
		f.refuse("store.snapshot_every", "is for snapshot, which is missing")
	}
	if s.Remote() {
		if s.Snapshot != "" {
			f.refuse("store.snapshot", "is for memory:; this store keeps what it counts by itself")
		}
		if s.Create && !strings.HasPrefix(string(s.URL), "postgres") {
			f.refuse("store.create", "is for PostgreSQL; this store has no tables")
		}
		if least := 2 * cmp.Or(s.Deadline, DefaultDeadline); s.Lease > 0 && s.Lease < least {
			f.refuse("store.lease", "must be at least %v, twice the deadline: tokens of an answer that comes later than they may be used are lost", least)
		}
		return
	}
	for _, name := range []string{"deadline", "away", "instances", "lease", "create"} {
		if f.has("store." + name) {
			f.refuse("store."+name, "memory: is in this process; leave it out, or name a store in the network")
		}
	}
}

func (f *files) checkRules(c *File) {
	r := c.Rules
	if r.URL == "" {
		for _, name := range []string{"every", "timeout", "keep"} {
			if f.has("rules." + name) {
				f.refuse("rules."+name, "is for url, which is missing")
			}
		}
	}
	if r.OverlayKeep != "" && r.Overlay != InStore {
		f.refuse("rules.overlay_keep", "is for overlay: store")
	}
	f.checkXDS(c)
	switch {
	case r.File == "" && r.URL == "" && r.Overlay == "" && r.XDS == nil:
		f.refuse("rules", "no source; write file, url, xds or overlay")
	case r.Overlay == InStore && !c.Store.Remote():
		f.refuse("rules.overlay", "store: must be shared by all instances; write the url of a Redis or PostgreSQL into store, or a file here")
	}
}

func (f *files) checkXDS(c *File) {
	x := c.Rules.XDS
	switch {
	case x == nil:
	case c.Envoy == nil:
		f.refuse("rules.xds", "has rules for what Envoy asks, and nothing answers it; write envoy: {listen: \":8081\"} too")
	case x.TLS != nil && (x.TLS.Cert == "") != (x.TLS.Key == ""):
		f.refuse("rules.xds.tls", "cert and key belong together")
	}
}

func (f *files) checkRoutes(routes []Route) {
	seen := map[string]int{}
	for i, r := range routes {
		path := fmt.Sprintf("gateway.routes[%d]", i)
		if all, ok := seen[""]; ok {
			f.refuse(path, "never reached: routes[%d] takes all requests; move it to the end", all)
		}
		match := r.Match
		if match == "*" || match == "/*" {
			match = ""
		}
		if before, ok := seen[match]; ok {
			f.refuse(path, "never reached: routes[%d] has the same match", before)
		}
		seen[match] = i
		f.checkRoute(path, r)
	}
}

func (f *files) checkRoute(path string, r Route) {
	for _, u := range r.Upgrades {
		if strings.EqualFold(u, "h2c") {
			f.refuse(path+".upgrades", "h2c: requests inside it would not be limited")
		}
	}
	d := r.Degraded
	if t := r.TLS; t != nil {
		if (t.Cert == "") != (t.Key == "") {
			f.refuse(path+".tls", "cert and key belong together")
		}
		if !slices.ContainsFunc(r.To, Upstream.secure) && (d == nil || !slices.ContainsFunc(d.To, Upstream.secure)) {
			f.refuse(path+".tls", "is for upstreams by https://, and there is none; write one, or leave it out")
		}
	}
	switch {
	case d == nil && r.Switch != "":
		f.refuse(path+".degrade_switch", "there is no degraded that would answer")
	case d == nil:
	case len(d.To) > 0 && (d.Status != 0 || d.Header != nil || d.Body != "" || d.File != ""):
		f.refuse(path+".degraded", "to, or status, header and body; not both")
	case d.Body != "" && d.File != "":
		f.refuse(path+".degraded", "body or file, not both")
	case len(d.To) == 0 && d.Status == 0 && d.Header == nil && d.Body == "" && d.File == "":
		f.refuse(path+".degraded", "says no answer; write to, or status, header, body or file")
	default:
		f.checkAnswer(path+".degraded", d)
	}
}

func (f *files) checkEgress(c *File) {
	for _, name := range slices.Sorted(maps.Keys(c.Egress.APIs)) {
		a, path := c.Egress.APIs[name], join("egress.apis", name)+".fleet"
		switch {
		case !a.Fleet:
		case !c.Store.Remote():
			f.refuse(path, "needs a store that processes share; write the url of a Redis or PostgreSQL into store")
		case limit.Limit(a.Rate).Unlimited():
			f.refuse(path, "is for rate, which is missing; what is learnt is not shared")
		}
	}
}

func (f *files) checkAdmin(c *File) {
	a := c.Admin
	short := func(path string, s Secret) {
		if s != "" && len(s) < 16 {
			f.refuse(path, "shorter than 16 bytes; make one by: openssl rand -hex 32")
		}
	}
	short("admin.token", a.Token)
	short("admin.read_token", a.ReadToken)
	for i, t := range a.Tokens {
		short(fmt.Sprintf("admin.tokens[%d].secret", i), t.Secret)
	}
	for i, host := range a.Hosts {
		if strings.ContainsAny(host, ":/*") && !isAddress(host) {
			f.refuse(fmt.Sprintf("admin.hosts[%d]", i), "%s: must be a name without scheme, port and '*', as admin.example.org", words.Quote(host))
		}
	}
	f.checkTokens(a)
	guarded := a.Token != "" || a.ReadToken != "" || len(a.Tokens) > 0 || a.Listen.TLS != nil && a.Listen.TLS.ClientCA != ""
	if at := a.Listen.Address; !guarded && !at.Local() {
		f.refuse("admin.listen", "%s is beyond loopback; write token, or tls with client_ca", at)
	}
	if len(a.Writers) > 0 && (a.Listen.TLS == nil || a.Listen.TLS.ClientCA == "") { // else it would look as if all others may only read
		f.refuse("admin.writers", "is for certificates of callers, and listen.tls has no client_ca; write that too, or tokens with write: true")
	}
	if f.has("admin.otlp_every") && a.OTLP == "" {
		f.refuse("admin.otlp_every", "is for otlp, which is missing")
	}
	if a.Ready == "store" && !c.Store.Remote() {
		f.refuse("admin.ready", "there is no store in the network that could be away")
	}
}

// secure reports whether an upstream is reached by TLS.
func (u Upstream) secure() bool { return strings.HasPrefix(strings.ToLower(string(u)), "https://") }

// isAddress reports whether a host is an address of IP, with brackets or not.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// checkTokens refuses tokens of which the program, or the audit log, could not tell one
// from the other.
func (f *files) checkTokens(a *Admin) {
	if a.Token != "" && a.Token == a.ReadToken {
		f.refuse("admin.read_token", "is the same as token")
	}
	secrets := map[Secret]string{a.Token: "token", a.ReadToken: "read_token"}
	names := map[string]string{}
	for name, s := range map[string]Secret{"token": a.Token, "read_token": a.ReadToken} {
		if s != "" {
			names[name] = name
		}
	}
	for i, t := range a.Tokens {
		own := fmt.Sprintf("tokens[%d]", i)
		if other, ok := secrets[t.Secret]; ok {
			f.refuse("admin."+own+".secret", "is the same as that of %s; give each token its own", other)
		}
		if other, ok := names[t.Name]; ok {
			f.refuse("admin."+own+".name", "%s is the name of %s, too; the audit log could not tell them apart", words.Quote(t.Name), other)
		}
		secrets[t.Secret], names[t.Name] = own, own
	}
}

// Local reports whether only this machine reaches the socket.
func (l Listen) Local() bool {
	if strings.HasPrefix(string(l), "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(string(l))
	a, notOne := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notOne == nil && a.IsLoopback())
}

// checkSockets refuses an address that two sockets have, reuse_port where there is no port,
// and proxy_protocol where connections come from no address.
func (f *files) checkSockets(c *File) {
	seen := map[Listen]bool{}
	check := func(path string, at Listen) {
		if seen[at] && !strings.HasSuffix(string(at), ":0") {
			f.refuse(path, "%s occurs twice", at)
		}
		seen[at] = true
	}
	reuse := func(path string, at Listen, is bool) {
		if kind, _, ok := strings.Cut(string(at), ":"); ok && is && (kind == "unix" || kind == "systemd") {
			f.refuse(path+".reuse_port", "is for HOST:PORT; leave it out")
		}
	}
	if c.Gateway != nil {
		for i, s := range c.Gateway.Listen {
			path := fmt.Sprintf("gateway.listen[%d]", i)
			check(path, s.Address)
			reuse(path, s.Address, s.ReusePort)
			if strings.HasPrefix(string(s.Address), "unix:") && len(s.Proxies) > 0 {
				f.refuse(path+".proxy_protocol", "a connection to a unix socket comes from no network; listen on HOST:PORT, or leave it out")
			}
		}
	}
	if c.Envoy != nil {
		if c.Gateway != nil && f.has("envoy.spread") {
			f.refuse("envoy.spread", "the gateway has the same; write it there")
		}
		check("envoy.listen", c.Envoy.Listen.Address)
		reuse("envoy.listen", c.Envoy.Listen.Address, c.Envoy.Listen.ReusePort)
	}
	if c.Egress != nil {
		check("egress.listen", c.Egress.Listen)
	}
	if c.Admin != nil {
		check("admin.listen", c.Admin.Listen.Address)
	}
}
