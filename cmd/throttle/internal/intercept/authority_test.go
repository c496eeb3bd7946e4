package intercept

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var at = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// authority makes one for hosts, which counts from now on.
func authority(t *testing.T, now time.Time, hosts ...string) *Authority {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCertificate(key, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{Dir: filepath.Join(t.TempDir(), "ca")}
	if err := errors.Join(WriteKey(a.Dir, key), WriteCertificate(a.Dir, c, nil), a.Load(now)); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestLeaf: an authority speaks for its hosts and names below them, and for nothing else.
func TestLeaf(t *testing.T) {
	names, addresses := authority(t, at, "api.github.com", "localhost", "a_b.example"), authority(t, at, "10.1.2.3")
	both := authority(t, at, "api.github.com", "fd00::7")
	for _, c := range []struct {
		a    *Authority
		host string
		want bool
	}{
		{names, "api.github.com", true},
		{names, "x.api.github.com", true}, // as X.509 has it
		{names, "localhost", true},
		{names, "a_b.example", true},
		{names, "github.com", false},
		{names, "evilapi.github.com", false},
		{names, "api.openai.com", false},
		{names, "127.0.0.1", false},
		{names, "::1", false},
		{addresses, "10.1.2.3", true},
		{addresses, "10.1.2.4", false},
		{addresses, "fd00::7", false},
		{addresses, "api.github.com", false},
		{both, "api.github.com", true},
		{both, "fd00::7", true},
		{both, "fd00::8", false},
		{both, "10.1.2.3", false},
		{both, "example.org", false},
	} {
		leaf, err := c.a.Leaf(c.host, at)
		if uncovered := (*Uncovered)(nil); (err == nil) != c.want || err != nil && !errors.As(err, &uncovered) {
			t.Errorf("Leaf(%s) of %v: %v, want one: %t", c.host, Permitted(c.a.Certificate()), err, c.want)
		} else if err == nil {
			if err := leaf.Leaf.VerifyHostname(strings.Trim(c.host, "[]")); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestLeafLife: a certificate is kept while more than a third of its life is left, and counts
// for 7 days, but no longer than its authority; after that there is none.
func TestLeafLife(t *testing.T) {
	a := authority(t, at, "api.github.com")
	end := a.Certificate().NotAfter
	first, err := a.Leaf("api.github.com", at)
	if err != nil || first.Leaf.NotAfter.Sub(at) != 7*24*time.Hour || !first.Leaf.NotBefore.Before(at) {
		t.Fatalf("Leaf = %+v, %v", first, err)
	}
	for _, c := range []struct {
		now  time.Time
		kept bool
		left time.Duration // of life, at least
	}{
		{at.Add(4 * 24 * time.Hour), true, 3 * 24 * time.Hour},
		{at.Add(5 * 24 * time.Hour), false, 7 * 24 * time.Hour},
		{end.Add(-3 * 24 * time.Hour), false, 3 * 24 * time.Hour},
		{end.Add(-time.Second), false, time.Second},
	} {
		before, _ := a.Leaf("api.github.com", at)
		leaf, err := a.Leaf("api.github.com", c.now)
		if err != nil || (leaf == before) != c.kept || leaf.Leaf.NotAfter.Sub(c.now) < c.left || leaf.Leaf.NotAfter.After(end) {
			t.Errorf("at %v: %v, kept %t until %v; want kept %t", c.now, err, leaf == before, leaf.Leaf.NotAfter, c.kept)
		}
	}
	for now, want := range map[time.Time]string{end.Add(time.Second): "has expired on 2027-06-01; run 'throttle ca -renew -dir ", at.Add(-3 * time.Hour): "does not count before 2026-06-01T11:00:00Z; is the clock"} {
		if _, err := a.Leaf("api.github.com", now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Leaf at %v: %v, want %q", now, err, want)
		}
	}
}

// TestLeavesBounded: beyond MaxHosts another certificate is forgotten, also where many ask
// at once.
func TestLeavesBounded(t *testing.T) {
	a := authority(t, at, "example.com")
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range MaxHosts/2 + 10 {
				if _, err := a.Leaf(fmt.Sprintf("h%d.example.com", (g%2)*1000+i), at); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(a.leaves); n != MaxHosts {
		t.Errorf("%d certificates are kept, want %d", n, MaxHosts)
	}
}

// TestCovers: the error says which hosts are not permitted, and the command that helps.
func TestCovers(t *testing.T) {
	a := authority(t, at, "api.github.com", "10.0.0.1")
	if err := a.Covers([]string{"api.github.com", "10.0.0.1"}, at); err != nil {
		t.Error(err)
	}
	err := a.Covers([]string{"api.github.com", "api.openai.com", "10.0.0.2"}, at)
	want := fmt.Sprintf("the CA in %s does not permit api.openai.com, 10.0.0.2; run 'throttle ca -renew -dir %s -hosts 10.0.0.1,api.github.com,api.openai.com,10.0.0.2'", a.Dir, a.Dir)
	if err == nil || err.Error() != want {
		t.Errorf("Covers:\n%v, want\n%s", err, want)
	}
}

// TestRenewed: an authority of the same key for more hosts signs for them once it was loaded,
// and those who trust the old certificate still trust what was permitted by it.
func TestRenewed(t *testing.T) {
	a := authority(t, at, "api.github.com")
	old := a.Certificate()
	if _, err := a.Leaf("api.github.com", at); err != nil {
		t.Fatal(err)
	}
	later := at.Add(200 * 24 * time.Hour)
	c, err := NewCertificate(a.key, []string{"api.github.com", "api.openai.com"}, later)
	if err := errors.Join(err, WriteCertificate(a.Dir, c, nil), a.Load(later)); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(old)
	for host, want := range map[string]bool{"api.github.com": true, "api.openai.com": false} {
		leaf, err := a.Leaf(host, later)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: later}); (err == nil) != want {
			t.Errorf("%s by the old certificate: %v, want trust: %t", host, err, want)
		}
	}
	if err := os.Remove(filepath.Join(a.Dir, CertificateFile)); err != nil {
		t.Fatal(err)
	}
	if err := a.Load(later); err == nil || a.Certificate() == nil || a.Certificate().NotAfter != c.NotAfter {
		t.Errorf("without a file: %v, and the authority is not what it was", err)
	}
}

// TestWarns: from 30 days before its end, one line a day says so.
func TestWarns(t *testing.T) {
	a, log := authority(t, at, "api.github.com"), new(bytes.Buffer)
	a.Log = slog.New(slog.NewTextHandler(log, nil))
	end := a.Certificate().NotAfter
	for _, c := range []struct {
		before time.Duration
		want   string
	}{{31 * 24 * time.Hour, ""}, {30 * 24 * time.Hour, "expires on 2027-06-01"}, {30*24*time.Hour - time.Minute, ""}, {29 * 24 * time.Hour, "expires on"}, {-time.Hour, "has expired"}, {-2 * time.Hour, ""}} {
		log.Reset()
		for _, host := range []string{"api.github.com", "x.api.github.com"} {
			_, _ = a.Leaf(host, end.Add(-c.before)) // an error is part of the table of TestLeafLife
		}
		if text := log.String(); strings.Count(text, "\n") != min(1, len(c.want)) || !strings.Contains(text, c.want) {
			t.Errorf("%v before the end: logged %q, want %q", c.before, text, c.want)
		}
	}
}

// certify spoils the certificate in a directory.
func certify(spoil func(*x509.Certificate)) func(dir string) error {
	return func(dir string) error {
		key, err := ReadKey(dir)
		if err != nil {
			return err
		}
		c, err := authorityTemplate([]string{"example.org"}, at)
		if err != nil {
			return err
		}
		spoil(c)
		signed, err := sign(c, c, key, key)
		if err != nil {
			return err
		}
		return WriteCertificate(dir, signed, nil)
	}
}

// TestRead: files that are not those of an authority are refused in one line, and what is
// right is said.
func TestRead(t *testing.T) {
	other := authority(t, at, "example.org")
	for _, c := range []struct {
		name, want string
		spoil      func(dir string) error
	}{
		{"key for all", "others than its owner may use it (mode 0644); run 'chmod 600 ", func(dir string) error { return os.Chmod(filepath.Join(dir, KeyFile), 0o644) }},
		{"key for the group", "(mode 0640)", func(dir string) error { return os.Chmod(filepath.Join(dir, KeyFile), 0o640) }},
		{"no key", "ca.key is missing beside its certificate", func(dir string) error { return os.Remove(filepath.Join(dir, KeyFile)) }},
		{"no certificate", "ca.pem is missing beside its key; run 'throttle ca -renew -dir ", func(dir string) error { return os.Remove(filepath.Join(dir, CertificateFile)) }},
		{"empty key", "ca.key: want one block of PEM, -----BEGIN PRIVATE KEY-----", func(dir string) error { return os.WriteFile(filepath.Join(dir, KeyFile), nil, 0o600) }},
		{"key of another", "is not the certificate of the key beside it", func(dir string) error {
			text, err := os.ReadFile(filepath.Join(other.Dir, KeyFile))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, KeyFile), text, 0o600))
		}},
		{"bundle as certificate", "ca.pem: want one block of PEM", func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, CertificateFile))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, CertificateFile), append(text, text...), 0o644))
		}},
		{"unlimited", "is not limited to some hosts", certify(func(c *x509.Certificate) { c.PermittedDNSDomains = nil })},
		{"limited for those who like", "is not limited to some hosts", certify(func(c *x509.Certificate) { c.PermittedDNSDomainsCritical = false })},
		{"unlimited addresses", "is not limited to some hosts", certify(func(c *x509.Certificate) { c.ExcludedIPRanges = nil })},
		{"a leaf", "is not the certificate of an authority", certify(func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false })},
	} {
		dir := authority(t, at, "example.org").Dir
		if err := c.spoil(dir); err != nil {
			t.Fatal(c.name, err)
		}
		if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

// TestWrite: the key is for its owner alone and never written over; the certificate is for
// all, and the bundle has the roots before it.
func TestWrite(t *testing.T) {
	a := authority(t, at, "b.example", "a.example", "10.0.0.1")
	if got, want := Permitted(a.Certificate()), []string{"10.0.0.1", "a.example", "b.example"}; !slices.Equal(got, want) {
		t.Errorf("Permitted = %v, want %v", got, want)
	}
	if err := WriteKey(a.Dir, a.key); !errors.Is(err, fs.ErrExist) {
		t.Errorf("WriteKey over one: %v", err)
	}
	if err := WriteCertificate(a.Dir, a.ca, []byte("roots\n\n")); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{KeyFile: 0o600, CertificateFile: 0o644, BundleFile: 0o644} {
		if info, err := os.Stat(filepath.Join(a.Dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	pem, _ := os.ReadFile(filepath.Join(a.Dir, CertificateFile))
	if bundle, _ := os.ReadFile(filepath.Join(a.Dir, BundleFile)); string(bundle) != "roots\n"+string(pem) {
		t.Errorf("the bundle is %q", bundle)
	}
	for _, n := range []int{0, MaxHosts + 1} {
		if _, err := NewCertificate(a.key, make([]string, n), at); err == nil {
			t.Errorf("there is an authority for %d hosts", n)
		}
	}
}

// TestOthersMay: a key is for its owner; that of root may be for the group of the process.
func TestOthersMay(t *testing.T) {
	for _, c := range []struct {
		mode        fs.FileMode
		owner, self int
		want        bool
	}{
		{0o600, 1000, 1000, false},
		{0o400, 1000, 1000, false},
		{0o640, 1000, 1000, true},
		{0o604, 1000, 1000, true},
		{0o620, 0, 1000, true},
		{0o440, 0, 1000, false},
		{0o444, 0, 1000, true},
		{0o640, 0, 0, true},
		{0o600, 0, 0, false},
	} {
		if got := othersMay(c.mode, c.owner, c.self); got != c.want {
			t.Errorf("othersMay(%o, %d, %d) = %t, want %t", c.mode, c.owner, c.self, got, c.want)
		}
	}
}
