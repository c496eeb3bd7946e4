package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
)

// certificates are files in PEM form, read again for each connection: operators have
// few. While a new one is wrong, the last good ones are in use.
type certificates struct {
	cert, key, clientCA string
	good                atomic.Pointer[tls.Config]
}

// load reads the files.
func (c *certificates) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	now := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: c.auth()}
	if c.clientCA != "" {
		text, err := os.ReadFile(c.clientCA)
		if err != nil {
			return err
		}
		now.ClientCAs = x509.NewCertPool()
		if !now.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: no certificate in PEM form", c.clientCA)
		}
	}
	c.good.Store(now)
	return nil
}

func (c *certificates) auth() tls.ClientAuthType {
	if c.clientCA != "" {
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

// config returns what a connection uses.
func (c *certificates) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	_ = c.load() // else the last good ones
	return c.good.Load(), nil
}
