// Package certificate reads the certificate and the key of a server from files, again
// when they change: while new ones are wrong, the old ones stay in use.
package certificate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
)

// Files are the files of a TLS listener, in PEM form, or those that a client shows. It is
// safe for concurrent use once Load was called.
type Files struct {
	// Cert and Key are the certificate with its chain, and its private key.
	Cert, Key string
	// ClientCA are the authorities whose certificates callers must show (mTLS). If
	// empty, none are asked for.
	ClientCA string
	// Every is the least time from one look at the files to the next: a handshake
	// that comes later looks. If zero, each does.
	Every time.Duration
	// Log is where changes and flaws are said, each once. If nil, nowhere.
	Log *slog.Logger

	mu     sync.Mutex // guards what follows
	looked time.Time
	good   time.Time // of the latest look that found no flaw
	seen   [3]digest // of the texts in use
	in     *tls.Config
	leaf   *x509.Certificate
	err    error  // of the latest look
	said   string // what the latest flaw was about
}

// digest tells a text from the one that was there before. Size and time of a file do
// not: one that is written within a second, or put in its place by a link, may have both.
type digest [sha256.Size]byte

// State says which certificate is in use, and why not the latest.
type State struct {
	// Version is the beginning of the SHA-256 of the certificate in use, in hex.
	Version string
	// Err says why the files are not in use as they are now. If nil, they are.
	Err error
	// Confirmed is when they were last looked at and were good.
	Confirmed time.Time
}

// Load reads the files, at a start. Where the certificate has expired or will soon, that
// is logged; a server whose clock is wrong would not start otherwise.
func (f *Files) Load(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.loadLocked(now); err != nil {
		return err
	}
	f.doubtLocked(now)
	return nil
}

// Config returns what a handshake uses. It is for tls.Config.GetConfigForClient.
func (f *Files) Config(*tls.ClientHelloInfo) (*tls.Config, error) {
	return f.At(time.Now()), nil
}

// At returns what a handshake at now uses.
func (f *Files) At(now time.Time) *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.looked) < f.Every && !now.Before(f.looked) {
		return f.in
	}
	before := f.err
	var changed bool
	if changed, f.err = f.loadLocked(now); f.err != nil {
		f.sayLocked(slog.LevelError, "the certificates stay as they are", f.err.Error(), "err", f.err)
		return f.in
	}
	switch {
	case changed:
		f.said = ""
		f.log().Info("new certificates", "cert", f.Cert)
	case before != nil: // the files are back as they were
		f.said = ""
		f.log().Info("the certificates are good again", "cert", f.Cert)
	}
	f.doubtLocked(now)
	return f.in
}

// Auth returns whether callers must show a certificate.
func (f *Files) Auth() tls.ClientAuthType {
	if f.ClientCA != "" {
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

// State returns what the files are, as of the latest look.
func (f *Files) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := State{Err: f.err, Confirmed: f.good}
	if f.leaf != nil {
		sum := sha256.Sum256(f.leaf.Raw)
		s.Version = hex.EncodeToString(sum[:6])
	}
	return s
}

// Doubt says what callers may not like at now in the certificate that is in use: that it
// has expired, or will within 30 days. If empty, there is nothing.
func (f *Files) Doubt(now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	about, left := doubt(f.leaf, now)
	return about + left
}

// soon is how long before its end a certificate is warned of.
const soon = 30 * 24 * time.Hour

// doubt returns what Doubt says, in two parts: the second is another each day.
func doubt(c *x509.Certificate, now time.Time) (about, left string) {
	if err := counts(c, now); err != nil {
		return err.Error(), ""
	}
	most := c.NotAfter.Sub(now)
	if most > soon || most >= c.NotAfter.Sub(c.NotBefore)/3 { // those of a few days are renewed late
		return "", ""
	}
	switch days := most / (24 * time.Hour); days {
	case 0:
		left = ", in less than a day"
	case 1:
		left = ", in 1 day"
	default:
		left = fmt.Sprintf(", in %d days", days)
	}
	return "expires on " + day(c.NotAfter), left
}

// counts says why a certificate does not count at now.
func counts(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("has expired on %s", day(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("does not count before %s", c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// doubtLocked logs a doubt, once.
func (f *Files) doubtLocked(now time.Time) {
	if about, left := doubt(f.leaf, now); about != "" {
		f.sayLocked(slog.LevelWarn, "the certificate "+about+left, about)
	}
}

// sayLocked logs a flaw, unless the latest that was logged was about the same.
func (f *Files) sayLocked(level slog.Level, text, about string, args ...any) {
	if about != f.said {
		f.said = about
		f.log().Log(context.Background(), level, text, append([]any{"cert", f.Cert}, args...)...)
	}
}

func (f *Files) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// loadLocked reads the files, and uses them if they have changed. With mu held: they are
// small, and local. Once there is a certificate in use, another that does not count at now
// is refused.
func (f *Files) loadLocked(now time.Time) (changed bool, err error) {
	f.looked = now
	var texts [3][]byte
	var seen [3]digest
	for i, name := range []string{f.Cert, f.Key, f.ClientCA} {
		if name == "" {
			continue
		}
		if texts[i], err = read(name); err != nil {
			return false, err
		}
		seen[i] = sha256.Sum256(texts[i])
	}
	if seen == f.seen && f.in != nil {
		f.good = now
		return false, nil
	}
	pair, err := f.pair(texts[0], texts[1])
	if err != nil {
		return false, fmt.Errorf("cert %s, key %s: %w", f.Cert, f.Key, err)
	}
	if err := counts(pair.Leaf, now); err != nil && f.in != nil && !pair.Leaf.Equal(f.leaf) {
		return false, fmt.Errorf("cert %s: %w", f.Cert, err)
	}
	in := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: f.Auth()}
	if f.ClientCA != "" {
		if in.ClientCAs, err = authorities(f.ClientCA, texts[2]); err != nil {
			return false, fmt.Errorf("client_ca: %w", err)
		}
	}
	f.in, f.leaf, f.seen, f.good = in, pair.Leaf, seen, now
	return true, nil
}

// maxSize bounds the bytes that are read of a file.
const maxSize = 16 << 20

func read(name string) ([]byte, error) {
	file, err := infile.OpenAgain(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read from
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s: longer than %d MiB", name, maxSize>>20)
	}
	return text, err
}

// pair parses the certificate and its key.
func (f *Files) pair(cert, key []byte) (pair tls.Certificate, err error) {
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		return pair, err
	}
	if err := errors.Join(whole(f.Cert, cert), whole(f.Key, key)); err != nil {
		return pair, err
	}
	if pair.Leaf == nil { // GODEBUG=x509keypairleaf=0
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return pair, err
}

// whole says whether the text of a file, in PEM form, has blocks that are cut, as in one
// that is half-written: crypto/tls and crypto/x509 read the others.
func whole(file string, text []byte) error {
	const begin = "-----BEGIN "
	blocks, rest := 0, text
	for b, after := pem.Decode(rest); b != nil; b, after = pem.Decode(rest) {
		blocks, rest = blocks+1, after
	}
	last := rest[bytes.LastIndexByte(rest, '\n')+1:]
	if bytes.Count(text, []byte(begin)) != blocks || len(last) > 0 && strings.HasPrefix(begin, string(last)) {
		return fmt.Errorf("%s: is cut: write all of its %q blocks, each with its end", file, "-----BEGIN")
	}
	return nil
}

// Authorities reads certificates of authorities.
func Authorities(file string) (*x509.CertPool, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	return authorities(file, text)
}

// authorities parses the text of a file.
func authorities(file string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: has no certificate in PEM form", file)
	}
	return pool, whole(file, text)
}
