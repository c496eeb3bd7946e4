package runner

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ca"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
)

// environment is that of this process, which its program gets with other proxies and
// authorities.
type environment struct{ all []string }

// get returns the value of the last variable of a name; empty if there is none.
func (e environment) get(name string) string {
	for _, v := range slices.Backward(e.all) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// loopback are the names of this machine, which programs reach without a proxy.
var loopback = []string{"localhost", "127.0.0.1", "::1"}

// proxy returns the variables by which programs use a proxy at url. NO_PROXY stays, with
// loopback besides, unless that is one of the hosts.
func (e environment) proxy(url string, hosts []intercept.Target) (all []string) {
	past := slices.DeleteFunc(slices.Clone(loopback), func(name string) bool {
		return slices.ContainsFunc(hosts, func(t intercept.Target) bool { return t.Host == name })
	})
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		all = append(all, name+"="+url)
	}
	for _, names := range [][2]string{{"NO_PROXY", "no_proxy"}, {"no_proxy", "NO_PROXY"}} {
		list := past
		if own := cmp.Or(e.get(names[0]), e.get(names[1])); own != "" {
			list = append([]string{own}, past...)
		}
		all = append(all, names[0]+"="+strings.Join(list, ","))
	}
	return append(all, "NODE_USE_ENV_PROXY=1") // Node.js 24 goes by the others then
}

// unused is the name of a variable of a proxy that the program will not use; empty if there
// is none.
func (e environment) unused() string {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if e.get(name) != "" {
			return name
		}
	}
	return ""
}

// bypassed returns the variable, with its value, by which programs reach a host without a
// proxy; empty if they do not. Of loopback, programs differ, so nothing is said.
func bypassed(t intercept.Target, get func(string) string) (name, value string) {
	if a := t.Addr(); a.IsLoopback() || t.Host == "localhost" {
		return "", ""
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		c := httpproxy.Config{HTTPSProxy: "http://proxy.invalid", NoProxy: get(name)}
		if to, err := c.ProxyFunc()(&url.URL{Scheme: "https", Host: t.String()}); err == nil && to == nil {
			return name, get(name)
		}
	}
	return "", ""
}

// trusting are the variables that name the authorities which programs trust in place of those
// of the system, each with what they go by if it is not set.
var trusting = [][]string{
	{"SSL_CERT_FILE"}, {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}, {"GIT_SSL_CAINFO"}, {"AWS_CA_BUNDLE"},
}

// trust writes the certificate of an authority into dir, alone and after those that programs
// trust now, and returns the variables that name these files.
func (e environment) trust(dir string, c *x509.Certificate) (all []string, err error) {
	_, roots := ca.SystemRoots(dir)
	if err := intercept.WriteCertificate(dir, c, roots); err != nil {
		return nil, exit.Failf("run: %v", err)
	}
	usual := filepath.Join(dir, intercept.CertificateFile)
	extra := usual
	if len(roots) > 0 {
		usual = filepath.Join(dir, intercept.BundleFile)
	}
	for _, names := range trusting {
		file, err := e.extend(dir, c, names, usual)
		if err != nil {
			return nil, err
		}
		all = append(all, names[0]+"="+file)
	}
	file, err := e.extend(dir, c, []string{"NODE_EXTRA_CA_CERTS"}, extra)
	return append(all, "NODE_EXTRA_CA_CERTS="+file), err
}

// extend returns a file of the authorities that the first of the variables names which is set,
// and of c; usual if none is.
func (e environment) extend(dir string, c *x509.Certificate, names []string, usual string) (file string, err error) {
	for _, name := range names {
		from := e.get(name)
		if from == "" {
			continue
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", usage.Errorf("run: %s: %v; it must name a file of certificates, or be unset", name, err)
		}
		file = filepath.Join(dir, names[0]+".pem")
		own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		if err := os.WriteFile(file, bytes.Join([][]byte{bytes.TrimSpace(text), own}, []byte("\n")), 0o600); err != nil {
			return "", exit.Failf("run: %v", err)
		}
		return file, nil
	}
	return usual, nil
}
