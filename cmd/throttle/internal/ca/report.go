package ca

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

// rootFiles are where systems keep their authorities in one file, as crypto/x509 has them.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Gentoo, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7 and later
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, the BSDs
}

// SystemRoots returns the authorities of the system in PEM form, and their file, which
// SSL_CERT_FILE may name, unless that is the bundle in dir. Without any they are nil.
func SystemRoots(dir string) (file string, text []byte) {
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, rootFiles...) {
		if file == "" || filepath.Dir(file) == dir {
			continue
		}
		text, err := os.ReadFile(file)
		if err == nil && bytes.Contains(text, []byte("-----BEGIN CERTIFICATE-----")) {
			return file, text
		}
	}
	return "", nil
}

// report writes what the authority is, and how clients trust it.
func (o *options) report(w io.Writer, c *x509.Certificate, verb string, now time.Time) error {
	var b strings.Builder
	sum := sha256.Sum256(c.Raw)
	fmt.Fprintf(&b, "throttle ca: %s %s, for %s, until %s\n", verb, o.dir, list(intercept.Permitted(c)), c.NotAfter.UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "SHA-256 of the certificate: %X\n", sum)
	if doubt := intercept.Doubt(c, o.dir, now); doubt != "" {
		fmt.Fprintf(&b, "Beware: %s.\n", doubt)
	}
	if shared := intercept.Shared(intercept.Permitted(c)); len(shared) > 0 {
		fmt.Fprintf(&b, "Beware: below %s are hosts of others, for which the key can speak too.\n", list(shared))
	}
	o.bundle(&b)
	o.trust(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// bundle says what the bundle is, or why there is none.
func (o *options) bundle(b *strings.Builder) {
	file, roots := SystemRoots(o.dir)
	text, err := os.ReadFile(filepath.Join(o.dir, intercept.BundleFile))
	switch {
	case err != nil:
		fmt.Fprintf(b, "Beware: there is no %s, as no file of authorities was found on this system; ca.pem alone trusts these hosts only.\n", intercept.BundleFile)
	case roots != nil && !bytes.HasPrefix(text, bytes.TrimSpace(roots)):
		fmt.Fprintf(b, "Beware: %s is not what %s is by now; -renew makes it again.\n", intercept.BundleFile, file)
	case roots != nil:
		fmt.Fprintf(b, "bundle.pem has the authorities of %s and this one.\n", file)
	}
}

// trust writes what makes clients use the proxy and trust the authority.
func (o *options) trust(b *strings.Builder) {
	pem, bundle := filepath.Join(o.dir, intercept.CertificateFile), filepath.Join(o.dir, intercept.BundleFile)
	if _, err := os.Stat(bundle); err != nil {
		bundle = pem
	}
	b.WriteString("\nSet these where the clients run. SSL_CERT_FILE is for Python, Ruby, Go and OpenSSL, REQUESTS_CA_BUNDLE\nfor requests of Python, CURL_CA_BUNDLE for curl, and the last two are for Node.js:\n\n")
	for _, v := range [][2]string{
		{"HTTPS_PROXY", "http://127.0.0.1:8090"},
		{"SSL_CERT_FILE", bundle},
		{"REQUESTS_CA_BUNDLE", bundle},
		{"CURL_CA_BUNDLE", bundle},
		{"NODE_EXTRA_CA_CERTS", pem},
		{"NODE_USE_ENV_PROXY", "1"},
	} {
		fmt.Fprintf(b, "  export %s=%s\n", v[0], quoted(v[1]))
	}
	store := filepath.Join(o.dir, "cacerts.p12")
	fmt.Fprintf(b, `
Java has a store of its own; copy it and add the authority. It ignores that the certificate is
for these hosts only: an attacker with ca.key can speak for any host to Java.

  keytool -importkeystore -noprompt -srckeystore "$JAVA_HOME/lib/security/cacerts" -srcstorepass changeit -destkeystore %[1]s -deststorepass changeit
  keytool -importcert -noprompt -alias throttle -file %[2]s -keystore %[1]s -storepass changeit
  export JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8090 -Djavax.net.ssl.trustStore=%[3]s -Djavax.net.ssl.trustStorePassword=changeit'
`, quoted(store), quoted(pem), store)
}

// quoted returns a word for a shell.
func quoted(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
