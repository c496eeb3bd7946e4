package ca

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
)

// TestRun: an authority is made once, shown, and made again only with -renew; what is wrong
// gets one line and makes nothing.
func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my ca")
	var key, pem string
	for _, c := range []struct {
		args []string
		code int
		want string // in either stream
		same bool   // the certificate stays
	}{
		{nil, 2, "there is none in " + dir + "; write -hosts HOST[,HOST] to make one", true},
		{[]string{"-hosts", "api.github.com:443"}, 2, "a certificate has no port; write api.github.com", true},
		{[]string{"-hosts", "api.github.com,"}, 2, `ca: -hosts "": the host is missing`, true},
		{[]string{"-hosts", "https://api.github.com"}, 2, "without https://", true},
		{[]string{"-hosts", "*.github.com"}, 2, "has '*'", true},
		{[]string{"-hosts", "api.github.com,com"}, 2, "ca: -hosts com: is a public suffix, below which anyone may have a host; write the host of the API", true},
		{[]string{"-hosts", strings.Join(many(300), ",")}, 2, "is for 256 at most", true},
		{[]string{"more"}, 2, "more is too much", true},
		{[]string{"-hosts", ""}, 2, "is empty", true},
		{[]string{"-hosts", "h", "-dir", os.Args[0]}, 2, "is a file; name a directory", true},
		{[]string{"-hosts", "API.github.com.,localhost,localhost"}, 0, "throttle ca: made " + dir + ", for api.github.com and localhost, until", false},
		{nil, 0, "throttle ca: is " + dir + ", for api.github.com and localhost, until", true},
		{[]string{"-hosts", "localhost,api.github.com"}, 0, "throttle ca: is ", true},
		{[]string{"-hosts", "api.openai.com"}, 2, "is for api.github.com and localhost; add -renew to make it for api.openai.com", true},
		{[]string{"-renew"}, 0, "made " + dir + ", for api.github.com and localhost, until", false},
		{[]string{"-renew", "-hosts", "api.openai.com"}, 0, "made " + dir + ", for api.openai.com, until", false},
		{[]string{"-renew", "-hosts", "com"}, 2, "-hosts com: is a public suffix", true},
		{[]string{"-renew", "-hosts", "s3.amazonaws.com"}, 0, "Beware: below s3.amazonaws.com are hosts of others, for which the key can speak too.", false},
	} {
		args := c.args
		if !slices.Contains(args, "-dir") {
			args = append([]string{"-dir", dir}, args...)
		}
		out, errs, code := clitest.Play(t.Context(), Run, args...)
		if code != c.code || !strings.Contains(out+errs, c.want) || code != 0 && strings.Count(errs, "\n") != 1 {
			t.Errorf("throttle ca %.80q: code %d\n%s%s; want %d, %q", c.args, code, out, errs, c.code, c.want)
		}
		is := read(t, filepath.Join(dir, intercept.CertificateFile))
		if (is == pem) != c.same || key != "" && key != read(t, filepath.Join(dir, intercept.KeyFile)) {
			t.Errorf("throttle ca %.80q: the certificate is the same: %t, want %t; or there is another key", c.args, is == pem, c.same)
		}
		pem, key = is, read(t, filepath.Join(dir, intercept.KeyFile))
	}
}

func many(n int) (all []string) {
	for i := range n {
		all = append(all, "h"+strings.Repeat("i", i%50)+string(rune('a'+i/50))+".example")
	}
	return all
}

// read returns what a file has; empty if there is none.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// TestHalf: a key without its certificate, as of a disk that was full, gets one by -renew; a
// certificate without its key is not written over.
func TestHalf(t *testing.T) {
	dir := t.TempDir()
	play := func(args ...string) (string, int) {
		out, errs, code := clitest.Play(t.Context(), Run, append([]string{"-dir", dir}, args...)...)
		return out + errs, code
	}
	play("-hosts", "example.org")
	if err := os.Remove(filepath.Join(dir, intercept.CertificateFile)); err != nil {
		t.Fatal(err)
	}
	if text, code := play("-hosts", "example.org"); code != 1 || !strings.Contains(text, "-renew") {
		t.Errorf("without a certificate: code %d, %s", code, text)
	}
	if text, code := play("-renew"); code != 2 || !strings.Contains(text, "for which hosts") {
		t.Errorf("-renew without a certificate: code %d, %s", code, text)
	}
	if text, code := play("-renew", "-hosts", "example.org"); code != 0 || !strings.Contains(text, "made") {
		t.Errorf("-renew -hosts without a certificate: code %d, %s", code, text)
	}
	if err := os.Remove(filepath.Join(dir, intercept.KeyFile)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-hosts", "example.org"}, {"-renew", "-hosts", "example.org"}} {
		before := read(t, filepath.Join(dir, intercept.CertificateFile))
		if text, code := play(args...); code != 1 || before != read(t, filepath.Join(dir, intercept.CertificateFile)) {
			t.Errorf("throttle ca %q without a key: code %d, %s", args, code, text)
		}
	}
}

// TestReport: it says what to set, in words of a shell, and warns of an end that is near and
// of a bundle that is not what the system trusts by now.
func TestReport(t *testing.T) {
	dir, roots := filepath.Join(t.TempDir(), "it's"), filepath.Join(t.TempDir(), "roots.pem")
	one, _ := clitest.Certificate(t, time.Now(), time.Now().AddDate(1, 0, 0))
	if err := os.WriteFile(roots, one, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	made := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	o := &options{dir: dir, hosts: []string{"example.org"}}
	say := func(now time.Time) string {
		var b strings.Builder
		if err := o.run(&b, now); err != nil {
			t.Error(err)
		}
		return b.String()
	}
	word := `'` + strings.ReplaceAll(dir, "'", `'\''`)
	text := say(made)
	for _, want := range []string{
		"export SSL_CERT_FILE=" + word + "/bundle.pem'\n", "export REQUESTS_CA_BUNDLE=" + word + "/bundle.pem'\n", "export CURL_CA_BUNDLE=" + word + "/bundle.pem'\n",
		"export NODE_EXTRA_CA_CERTS=" + word + "/ca.pem'\n", "keytool -importcert", "has the authorities of " + roots + " and this one", "until 2027-06-01",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Beware") {
		t.Errorf("it warns:\n%s", text)
	}
	if bundle := read(t, filepath.Join(dir, intercept.BundleFile)); bundle != string(one)+read(t, filepath.Join(dir, intercept.CertificateFile)) {
		t.Errorf("the bundle is %s", bundle)
	}
	if text := say(made.AddDate(0, 11, 10)); !strings.Contains(text, "Beware: the CA in "+dir+" expires on 2027-06-01") {
		t.Errorf("near its end:\n%s", text)
	}
	other, _ := clitest.Certificate(t, time.Now(), time.Now().AddDate(1, 0, 0))
	if err := os.WriteFile(roots, other, 0o644); err != nil {
		t.Fatal(err)
	}
	if text := say(made); !strings.Contains(text, "Beware: bundle.pem is not what "+roots+" is by now; -renew") {
		t.Errorf("other roots:\n%s", text)
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, intercept.BundleFile)) // as after an export of what it said
	if file, _ := SystemRoots(dir); filepath.Dir(file) == dir {
		t.Error("the bundle is made of itself")
	}
}
