package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates are the files of a TLS, which are looked at again by a handshake
// that comes a second or more after the last look.
type certificates struct {
	TLS
	log *slog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   [3]stamp
	in     *tls.Config
}

// stamp tells a file from the one that was there before.
type stamp struct {
	size int64
	at   time.Time
}

const lookEvery = time.Second

// config returns the certificates in use.
func (c *certificates) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) >= lookEvery {
		switch changed, err := c.loadLocked(now); {
		case err != nil:
			c.log.Error("the certificates stay as they are", "cert", c.Cert, "err", err)
		case changed:
			c.log.Info("new certificates", "cert", c.Cert)
		}
	}
	return c.in, nil
}

// load reads the files.
func (c *certificates) load(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.loadLocked(now)
	return err
}

// loadLocked reads the files if they have changed. With c.mu held: they are
// small, and local.
func (c *certificates) loadLocked(now time.Time) (changed bool, err error) {
	c.looked = now
	var seen [3]stamp
	for i, name := range []string{c.Cert, c.Key, c.ClientCA} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return false, err
		}
		seen[i] = stamp{info.Size(), info.ModTime()}
	}
	if seen == c.seen && c.in != nil {
		return false, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return false, fmt.Errorf("cert %s, key %s: %w", c.Cert, c.Key, err)
	}
	in := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCA != "" {
		if in.ClientCAs, err = authorities(c.ClientCA); err != nil {
			return false, fmt.Errorf("client_ca: %w", err)
		}
		in.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.in, c.seen = in, seen
	return true, nil
}
