package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// forge signs a certificate of a host by the key of an authority, as who stole it would:
// whether it permits the host or not.
func forge(t *testing.T, a *Authority, host string) *tls.Certificate {
	t.Helper()
	leaf, err := newLeaf(host, a.leaf, a.ca, a.key, time.Now())
	if leaf == nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: a.leaf, Leaf: leaf}
}

// TestOpenSSLVerifies: OpenSSL takes the certificates of permitted hosts, and refuses those
// of others that the same key has signed.
func TestOpenSSLVerifies(t *testing.T) {
	openssl := clitest.Program(t, "openssl")
	names, addresses := authority(t, time.Now(), "api.example.com", "localhost"), authority(t, time.Now(), "10.1.2.3")
	mixed := authority(t, time.Now(), "api.example.com", "fd00::7")
	for _, c := range []struct {
		a          *Authority
		host, want string
	}{
		{names, "api.example.com", "OK"},
		{names, "localhost", "OK"},
		{names, "api.openai.com", "permitted subtree violation"},
		{names, "example.com", "permitted subtree violation"},
		{names, "127.0.0.1", "excluded subtree violation"},
		{names, "::1", "excluded subtree violation"},
		{addresses, "10.1.2.3", "OK"},
		{addresses, "10.1.2.4", "permitted subtree violation"},
		{addresses, "::1", "permitted subtree violation"},
		{addresses, "api.example.com", "permitted subtree violation"},
		{mixed, "fd00::7", "OK"},
		{mixed, "10.1.2.3", "permitted subtree violation"},
		{mixed, "api.example.com", "OK"},
	} {
		leaf := filepath.Join(t.TempDir(), "leaf.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: forge(t, c.a, c.host).Leaf.Raw})
		if err := os.WriteFile(leaf, text, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", filepath.Join(c.a.Dir, CertificateFile), leaf).CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err == nil) != (c.want == "OK") {
			t.Errorf("openssl verify of %s by an authority for %v: %v, %s; want %s", c.host, Permitted(c.a.ca), err, out, c.want)
		}
	}
}

// TestOpenSSLForMail: a certificate for mail, of a host that is permitted, is refused too.
func TestOpenSSLForMail(t *testing.T) {
	openssl, a := clitest.Program(t, "openssl"), authority(t, time.Now(), "api.example.com")
	c, err := sign(&x509.Certificate{
		NotBefore: a.ca.NotBefore, NotAfter: a.ca.NotAfter, DNSNames: []string{"api.example.com"}, EmailAddresses: []string{"boss@api.example.com"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageServerAuth},
	}, a.ca, a.leaf, a.key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "leaf.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	for purpose, want := range map[string]bool{"sslserver": true, "smimesign": false} {
		out, err := exec.CommandContext(t.Context(), openssl, "verify", "-purpose", purpose, "-CAfile", filepath.Join(a.Dir, CertificateFile), file).CombinedOutput()
		if (err == nil) != want {
			t.Errorf("openssl verify -purpose %s: %v, %s; want it good: %t", purpose, err, out, want)
		}
	}
}

// fetchers get a URL and print the body; the authority is in $CA. They are of OpenSSL,
// and the last of GnuTLS.
var fetchers = map[string][]string{
	"curl":    {"-sS", "--max-time", "20", "--cacert", "$CA"},
	"python3": {"-c", `import os, ssl, sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20, context=ssl.create_default_context(cafile=os.environ["CA"])).read().decode())`},
	"node":    {"-e", `require("https").get(process.argv[1], a => a.pipe(process.stdout)).on("error", e => { console.log(e.message); process.exit(1) })`},
	"wget":    {"--tries=1", "--timeout=20", "--quiet", "--output-document=-", "--ca-certificate=$CA"},
}

// TestStolenKey: curl, Python, Node.js and wget go to a host that the authority permits, and
// refuse a server that shows a certificate of the stolen key for another.
func TestStolenKey(t *testing.T) {
	for name, args := range fetchers {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(name); err != nil && name == "wget" {
				t.Skip("no wget: GnuTLS is NOT tested")
			}
			program := clitest.Program(t, name)
			for host, want := range map[string]bool{"localhost": true, "api.example.com": false} {
				a := authority(t, time.Now(), host)
				ca := filepath.Join(a.Dir, CertificateFile)
				var words []string
				for _, word := range args {
					words = append(words, strings.ReplaceAll(word, "$CA", ca))
				}
				out, err := fetch(t, a, ca, append([]string{program}, words...))
				why := "permitted subtree violation"
				if name == "wget" { // is quiet
					why = ""
				}
				if (err == nil) != want || strings.Contains(out, "reached") != want || !want && !strings.Contains(out, why) {
					t.Errorf("by an authority for %s: %v, %s; want it reached: %t", host, err, out, want)
				}
			}
		})
	}
}

// TestJavaIgnores: Java does not look at the constraints of a certificate in its store, as
// docs/egress-https.md and 'throttle ca' say. If a later one does, they are to say so.
func TestJavaIgnores(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") != "1" {
		t.Skip("takes a JVM; THROTTLE_INTEGRATION=1 runs it")
	}
	java, keytool := clitest.Program(t, "java"), clitest.Program(t, "keytool")
	a := authority(t, time.Now(), "api.example.com")
	ca, store, source := filepath.Join(a.Dir, CertificateFile), filepath.Join(a.Dir, "store.p12"), filepath.Join(a.Dir, "Get.java")
	if out, err := exec.CommandContext(t.Context(), keytool, "-importcert", "-noprompt", "-alias", "x", "-file", ca, "-keystore", store, "-storepass", "changeit").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const get = `public class Get { public static void main(String[] a) throws Exception {
  System.out.println(new String(new java.net.URI(a[0]).toURL().openStream().readAllBytes())); } }`
	if err := os.WriteFile(source, []byte(get), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := fetch(t, a, ca, []string{java, "-Djavax.net.ssl.trustStore=" + store, "-Djavax.net.ssl.trustStorePassword=changeit", source})
	if !strings.Contains(out, "reached") {
		t.Errorf("Java refuses: %v, %s", err, out)
	}
}

// fetch runs a program with the URL of a server that shows a certificate of localhost, signed
// by the key of an authority, and returns what it prints.
func fetch(t *testing.T, a *Authority, ca string, args []string) (string, error) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*forge(t, a, "localhost")}}
	server.Config.ErrorLog = nothing
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], append(args[1:len(args):len(args)], strings.Replace(server.URL, "127.0.0.1", "localhost", 1))...)
	cmd.Env = append(os.Environ(), "CA="+ca, "NODE_EXTRA_CA_CERTS="+ca, "NO_PROXY=*", "no_proxy=*")
	out, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	return string(out), err
}
