package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// role is what a caller may do.
type role uint8

const (
	anyone role = iota // the probes
	reader
	writer
)

// A caller is known by a token or a certificate, or by the listener that it could
// reach.
type caller struct {
	name string
	role role
}

// minSecret is the length of the shortest secret.
const minSecret = 16

// access decides who may do what.
type access struct {
	tokens  []Token
	sums    [][sha256.Size]byte // of the secrets
	mutual  bool                // certificates of clients are checked
	writers []string
	hosts   []string
	local   string // the name of all callers, if neither tokens nor certificates are asked for
	unix    bool
	origins *http.CrossOriginProtection

	cookie   string // its name
	secure   bool   // the listener speaks TLS
	sessions sessions
}

// accessOf checks that not everybody may write.
func accessOf(c *Config, at net.Addr) (*access, error) {
	a := &access{tokens: c.Tokens, writers: c.Writers, unix: at.Network() == "unix", secure: c.TLS != nil, cookie: cookieName(at, c.TLS != nil), origins: http.NewCrossOriginProtection()}
	a.mutual = c.TLS != nil && c.TLS.ClientAuth >= tls.VerifyClientCertIfGiven
	for _, host := range c.Hosts {
		a.hosts = append(a.hosts, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	for i, t := range c.Tokens {
		if len(t.Secret) < minSecret {
			return nil, usage.Errorf("admin: token %s: the secret has %d bytes; it must have at least %d, as from 'openssl rand -hex 16'", words.Quote(t.Name), len(t.Secret), minSecret)
		}
		a.sums = append(a.sums, sha256.Sum256([]byte(t.Secret)))
		if slices.Contains(a.sums[:i], a.sums[i]) {
			return nil, usage.Errorf("admin: token %s: another token has the same secret", words.Quote(t.Name))
		}
	}
	if len(a.tokens) > 0 || a.mutual && c.TLS.ClientAuth == tls.RequireAndVerifyClientCert {
		return a, nil
	}
	if a.local = localName(at); a.local == "" {
		return nil, usage.Errorf("admin: %v can be reached by others: set a token, or mTLS by naming the CA of its clients, or listen on 127.0.0.1 or unix:PATH", at)
	}
	return a, nil
}

// localName names all callers of a listener that only this machine reaches.
func localName(at net.Addr) string {
	switch a := at.(type) {
	case *net.UnixAddr:
		return "unix"
	case *net.TCPAddr:
		if a.IP.IsLoopback() {
			return "loopback"
		}
	}
	return ""
}

// of returns who sends r.
func (a *access) of(r *http.Request) caller {
	found := caller{}
	if a.local != "" {
		found = caller{a.local, writer}
	}
	if a.mutual && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		found = a.certified(r.TLS.VerifiedChains[0][0])
	}
	if c, err := r.Cookie(a.cookie); err == nil && len(a.tokens) > 0 {
		found = higher(found, a.sessions.of(c.Value, time.Now()))
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return found
	}
	return higher(found, a.known(strings.TrimSpace(secret)))
}

// higher is the one that may do more, the second if both may do as much.
func higher(a, b caller) caller {
	if b.role > anyone && b.role >= a.role {
		return b
	}
	return a
}

// known returns who has a secret, anyone if none does. All are compared, in a time
// that does not depend on what is in them.
func (a *access) known(secret string) (found caller) {
	sum := sha256.Sum256([]byte(secret))
	for i := range a.sums {
		if subtle.ConstantTimeCompare(sum[:], a.sums[i][:]) == 1 {
			found = caller{a.tokens[i].Name, reader}
			if a.tokens[i].Write {
				found.role = writer
			}
		}
	}
	return found
}

func (a *access) certified(c *x509.Certificate) caller {
	names := append([]string{c.Subject.CommonName}, c.DNSNames...)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	named := names[slices.IndexFunc(append(names, "-"), func(n string) bool { return n != "" })%len(names)]
	if len(a.writers) == 0 || slices.ContainsFunc(names, func(n string) bool { return n != "" && slices.Contains(a.writers, n) }) {
		return caller{named, writer}
	}
	return caller{named, reader}
}

// knows reports whether the field Host names this listener: a page whose name was
// bound to our address after it was loaded (DNS rebinding) sends its own name. An
// address cannot be bound again.
func (a *access) knows(host string) bool {
	if a.unix { // no page can reach it
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || slices.Contains(a.hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// foreign reports whether a page of another origin sent r, unless it only leads
// its reader here.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// check returns who sends r, if it may.
func (a *access) check(r *http.Request, needs role) (caller, error) {
	if !a.knows(r.Host) {
		return caller{}, failf(http.StatusMisdirectedRequest, "the host %s is not one of this listener: add it to admin.hosts", words.Quote(r.Host))
	}
	if err := a.origins.Check(r); err != nil || foreign(r) {
		return caller{}, failf(http.StatusForbidden, "a page of another origin sent this request")
	}
	switch found := a.of(r); {
	case found.role >= needs:
		return found, nil
	case found.role > anyone:
		return found, failf(http.StatusForbidden, "%s may read, but not write", found.name)
	default:
		return found, failf(http.StatusUnauthorized, "send Authorization: Bearer TOKEN")
	}
}

type callerKey struct{}

// from returns who sends the request of ctx.
func from(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// guarded serves requests of those that may send them, within bounds.
func (s *server) guarded(needs role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		who, err := s.access.check(r, needs)
		if err != nil {
			s.turnedAway(r, who, err)
			s.denied(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	})
}
