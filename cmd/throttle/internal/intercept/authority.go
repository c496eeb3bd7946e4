package intercept

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// An Authority signs certificates of the hosts that it permits, each for 7 days, and renews
// them before they end. It keeps MaxHosts of them; one beyond takes the place of another,
// which is signed again when it is asked for. It is safe for concurrent use once Load or Use
// was called, and the fields must not change after that.
type Authority struct {
	// Dir is where its files are, see Load. It is empty for one that is in no file.
	Dir string
	// Log is where is said that the certificate of the authority ends within 30 days, or
	// has ended: once a day. If nil, nowhere.
	Log *slog.Logger

	mu     sync.Mutex // guards what follows
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	leaf   *ecdsa.PrivateKey // of all certificates of hosts
	leaves map[string]*tls.Certificate
	said   string // the day of the latest line about its end
}

// Load reads the authority from Dir: at a start, and again after it was renewed. The error
// is one line, and then what was there before stays. It warns if the end is near.
func (a *Authority) Load(now time.Time) error {
	ca, key, err := Read(a.Dir)
	if err != nil {
		return err
	}
	if err := a.Use(ca, key); err != nil {
		return err
	}
	a.warn(now)
	return nil
}

// Use sets the authority, whose key then is in memory only. The certificate must be of
// NewCertificate, for that key.
func (a *Authority) Use(ca *x509.Certificate, key *ecdsa.PrivateKey) error {
	leaf, err := NewKey()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ca, a.key, a.leaf, a.leaves, a.said = ca, key, leaf, map[string]*tls.Certificate{}, ""
	return nil
}

// how says how a caller trusts the authority, for a line.
func (a *Authority) how() string {
	if a.Dir == "" {
		return ""
	}
	return " in " + a.Dir + "; 'throttle ca' says how it does"
}

// Certificate returns that of the authority.
func (a *Authority) Certificate() *x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ca
}

// Leaf returns a certificate of a host, a name in lower case or an IP address, with its
// key, that counts at now. The error says that the authority does not permit the
// host, or has ended.
func (a *Authority) Leaf(host string, now time.Time) (*tls.Certificate, error) {
	a.warn(now)
	a.mu.Lock()
	kept, ca, key, private := a.leaves[host], a.ca, a.key, a.leaf
	a.mu.Unlock()
	if kept != nil && fresh(kept.Leaf, now) {
		return kept, nil
	}
	leaf, err := newLeaf(host, private, ca, key, now) // takes 0.2 ms, hence without the lock
	if err != nil {
		return nil, a.refusal(ca, host, err, now)
	}
	made := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: private, Leaf: leaf}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ca == ca { // it was not renewed meanwhile
		a.keepLocked(host, made)
	}
	return made, nil
}

// keepLocked keeps the certificate of a host.
func (a *Authority) keepLocked(host string, made *tls.Certificate) {
	if _, ok := a.leaves[host]; !ok && len(a.leaves) >= MaxHosts {
		for other := range a.leaves {
			delete(a.leaves, other)
			break
		}
	}
	a.leaves[host] = made
}

// fresh reports whether a certificate counts, and more than a third of its life is left.
func fresh(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && c.NotAfter.Sub(now) > c.NotAfter.Sub(c.NotBefore)/3
}

// refusal says why there is no certificate for a host.
func (a *Authority) refusal(ca *x509.Certificate, host string, err error, now time.Time) error {
	var invalid x509.CertificateInvalidError
	switch {
	case now.After(ca.NotAfter), now.Before(ca.NotBefore):
		return errors.New(Doubt(ca, a.Dir, now))
	case errors.As(err, &invalid) && invalid.Reason == x509.CANotAuthorizedForThisName:
		return a.uncovered([]string{host})
	}
	return err
}

// Covers says which of hosts the authority does not permit, in one line; nil if it permits
// all. It signs a certificate for each that has none yet.
func (a *Authority) Covers(hosts []string, now time.Time) error {
	var lack []string
	for _, host := range hosts {
		_, err := a.Leaf(host, now)
		if uncovered := (*Uncovered)(nil); errors.As(err, &uncovered) {
			lack = append(lack, host)
		} else if err != nil {
			return err
		}
	}
	if len(lack) > 0 {
		return a.uncovered(lack)
	}
	return nil
}

// Uncovered is the error about hosts that an authority does not permit.
type Uncovered struct {
	// Hosts are those, and Permits are those that it permits.
	Hosts, Permits []string
	// Dir is where it is.
	Dir string
}

func (a *Authority) uncovered(hosts []string) error {
	return &Uncovered{Hosts: hosts, Permits: Permitted(a.Certificate()), Dir: a.Dir}
}

// Error says which hosts, and what makes an authority for them.
func (u *Uncovered) Error() string {
	all := strings.Join(append(append([]string(nil), u.Permits...), u.Hosts...), ",")
	return fmt.Sprintf("the CA in %s does not permit %s; run 'throttle ca -renew -dir %s -hosts %s'", u.Dir, strings.Join(u.Hosts, ", "), u.Dir, all)
}

// warn logs once a day that the authority ends soon, or has.
func (a *Authority) warn(now time.Time) {
	if a.Log == nil {
		return
	}
	a.mu.Lock()
	text := Doubt(a.ca, a.Dir, now)
	today := now.Format(time.DateOnly)
	if text == "" || a.said == today {
		a.mu.Unlock()
		return
	}
	a.said = today
	a.mu.Unlock()
	a.Log.Warn("the CA for HTTPS must be renewed", "why", text)
}

// soon is how long before its end an authority is warned of.
const soon = 30 * 24 * time.Hour

// Doubt says that the certificate of an authority in dir has ended at now, ends within 30
// days, or does not count yet, and what to do; empty if none of that is so.
func Doubt(c *x509.Certificate, dir string, now time.Time) string {
	renew := fmt.Sprintf("; run 'throttle ca -renew -dir %s' and give clients the new ca.pem", dir)
	end := c.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.Before(c.NotBefore):
		return fmt.Sprintf("the CA in %s does not count before %s; is the clock of this machine right?", dir, c.NotBefore.UTC().Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Sprintf("the CA in %s has expired on %s", dir, end) + renew
	case c.NotAfter.Sub(now) <= soon:
		return fmt.Sprintf("the CA in %s expires on %s", dir, end) + renew
	}
	return ""
}
