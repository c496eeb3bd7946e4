package certificate

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

var at = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// pair are files, and what is logged of them.
type pair struct {
	*Files
	t     *testing.T
	log   bytes.Buffer
	times int
}

func newPair(t *testing.T) *pair {
	dir := t.TempDir()
	p := &pair{t: t}
	p.Files = &Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Every: time.Second, Log: slog.New(slog.NewTextHandler(&p.log, nil))}
	return p
}

// put writes files, each with a time of its own.
func (p *pair) put(cert, key []byte) {
	p.t.Helper()
	for name, text := range map[string][]byte{p.Cert: cert, p.Key: key} {
		if text == nil {
			continue
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			p.t.Fatal(err)
		}
		p.times++
		if when := at.Add(time.Duration(p.times) * time.Second); os.Chtimes(name, when, when) != nil {
			p.t.Fatal("no times")
		}
	}
}

// said is what was logged since.
func (p *pair) said() string {
	text := p.log.String()
	p.log.Reset()
	return text
}

// TestReload: good files come into use; a half-written pair, a key of another, one that
// has expired or does not count yet and files that are gone leave the old pair in use, and
// are logged once, and seen in the State.
func TestReload(t *testing.T) {
	p := newPair(t)
	cert, key := clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0))
	p.put(cert, key)
	if err := p.Load(at); err != nil || p.said() != "" {
		t.Fatalf("a good pair: %v, or it is logged", err)
	}
	now := at
	look := func() *tls.Config { now = now.Add(2 * time.Second); return p.At(now) }
	first, version := look(), p.State().Version
	otherCert, otherKey := clitest.Certificate(t, at.Add(-time.Minute), at.AddDate(1, 0, 0))
	oldCert, oldKey := clitest.Certificate(t, at.Add(-2*time.Hour), at.Add(-time.Hour))
	earlyCert, earlyKey := clitest.Certificate(t, at.Add(time.Hour), at.AddDate(1, 0, 0))
	for _, c := range []struct {
		name, want string
		cert, key  []byte
	}{
		{"certificate alone", "private key does not match public key", otherCert, nil},
		{"half a certificate", "failed to find any PEM data", otherCert[:len(otherCert)/2], otherKey},
		{"half a key", "failed to find any PEM data", otherCert, otherKey[:len(otherKey)/2]},
		{"empty", "failed to find any PEM data", []byte{}, []byte{}},
		{"expired", "has expired on 2026-06-01", oldCert, oldKey},
		{"too early", "does not count before 2026-06-01T13:00:00Z", earlyCert, earlyKey},
	} {
		p.put(c.cert, c.key)
		if look() != first || p.State().Version != version {
			t.Errorf("%s: the old pair is not in use", c.name)
		}
		if s := p.State(); s.Err == nil || s.Confirmed != at.Add(2*time.Second) || !strings.Contains(s.Err.Error(), c.want) {
			t.Errorf("%s: State says %v, want %q", c.name, s.Err, c.want)
		}
		if text := p.said(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "stay as they are") || !strings.Contains(text, c.want) {
			t.Errorf("%s: logged %q, want one line with %q", c.name, text, c.want)
		}
		if look(); p.said() != "" {
			t.Errorf("%s: is logged again", c.name)
		}
	}
	p.put(otherCert, otherKey)
	if p.At(now); p.State().Err == nil {
		t.Error("they are looked at again within Every")
	}
	if in := look(); in == first || p.State().Err != nil || p.State().Version == version || !strings.Contains(p.said(), "new certificates") {
		t.Errorf("a good pair again: %+v", p.State())
	}
	if err := os.Remove(p.Key); err != nil {
		t.Fatal(err)
	}
	if look() == first || p.State().Err == nil || !strings.Contains(p.said(), "no such file") {
		t.Errorf("no file: %+v", p.State())
	}
}

// TestReplacedAlike: a pair of the same size and time as the one before comes into use, as
// where both are written within one tick of the clock, or a link is swapped.
func TestReplacedAlike(t *testing.T) {
	p := newPair(t)
	dir := filepath.Dir(p.Cert)
	texts := map[string][]byte{}
	for _, name := range []string{"1", "2"} {
		cert, key := clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0))
		for len(texts["1/cert"]) > 0 && (len(cert) != len(texts["1/cert"]) || len(key) != len(texts["1/key"])) {
			cert, key = clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0)) // signatures differ in length
		}
		texts[name+"/cert"], texts[name+"/key"] = cert, key
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil || os.Chtimes(path, at, at) != nil {
			t.Fatal(err, "no times")
		}
	}
	p.Cert, p.Key = filepath.Join(dir, "now", "cert"), filepath.Join(dir, "now", "key")
	link := func(to string) {
		if err := os.Symlink(to, filepath.Join(dir, "next")); err != nil {
			t.Skip("no links:", err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "now")); err != nil {
			t.Fatal(err)
		}
	}
	link("1")
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	version := p.State().Version
	link("2")
	if p.At(at.Add(2 * time.Second)); p.State().Version == version || !strings.Contains(p.said(), "new certificates") {
		t.Errorf("the first is still in use: %+v", p.State())
	}
}

// TestDoubt: at a start and while it runs, a certificate that has expired, or will soon, is
// logged once; it is served nevertheless.
func TestDoubt(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		from, to time.Duration
		want     string
	}{
		{-day, 90 * day, ""},
		{-60 * day, 31 * day, ""},
		{-61 * day, 29*day + time.Hour, "expires on 2026-06-30, in 29 days"},
		{-day, 6 * day, ""}, // of a week, and renewed in its last days
		{-6 * day, day + time.Hour, "expires on 2026-06-02, in 1 day"},
		{-60 * day, -day, "has expired on 2026-05-31"},
		{day, 60 * day, "does not count before 2026-06-02T12:00:00Z"},
	} {
		p := newPair(t)
		p.put(clitest.Certificate(t, at.Add(c.from), at.Add(c.to)))
		if err := p.Load(at); err != nil {
			t.Fatal(err)
		}
		text := p.said()
		if got := p.Doubt(at); got != c.want || strings.Count(text, "\n") != min(1, len(c.want)) || !strings.Contains(text, c.want) {
			t.Errorf("from %v to %v: %q, logged %q; want %q", c.from, c.to, got, text, c.want)
		}
		if p.At(at.Add(time.Minute)) == nil || p.said() != "" {
			t.Errorf("from %v to %v: not served, or logged twice", c.from, c.to)
		}
	}
	p := newPair(t)
	p.put(clitest.Certificate(t, at.Add(-90*day), at.Add(90*day)))
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	if p.At(at.Add(91 * day)); !strings.Contains(p.said(), "has expired") {
		t.Error("it is not logged that the certificate has expired meanwhile")
	}
}

// TestCut: a file that ends in a block, or has lost the end of one, is not taken for the
// blocks that are whole, at a start as later.
func TestCut(t *testing.T) {
	cert, key := clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0))
	other, _ := clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0))
	halves := func(whole []byte) [][]byte {
		return [][]byte{
			slices.Concat(whole, other[:len(other)/2]), slices.Concat(whole, other[:len(other)-9]), slices.Concat(whole, other[:7]), slices.Concat(whole, other[:20]),
			slices.Concat(whole, other[:len(other)/2], []byte("\n"), other),
		}
	}
	for i, text := range slices.Concat(halves(cert), halves(key), halves(other)) {
		p := newPair(t)
		p.ClientCA = filepath.Join(filepath.Dir(p.Cert), "authorities")
		files := map[string][]byte{p.Cert: cert, p.Key: key, p.ClientCA: slices.Concat(other, []byte("\n# and one more\n"), cert)}
		name := []string{p.Cert, p.Key, p.ClientCA}[i/5]
		for _, late := range []bool{false, true} {
			for name, text := range files {
				if err := os.WriteFile(name, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if late {
				if err = p.Load(at); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if late {
				p.At(at.Add(2 * time.Second))
				err = p.State().Err
			} else {
				err = p.Load(at)
			}
			if err == nil || !strings.Contains(err.Error(), name+": is cut") {
				t.Errorf("%d, late %v: %v, want that %s is cut", i, late, err, filepath.Base(name))
			}
		}
	}
}

// TestExpiredInUse: once the certificate in use has expired, the authorities can be changed,
// and a file can be written again as it was; another that has expired is refused.
func TestExpiredInUse(t *testing.T) {
	p := newPair(t)
	p.ClientCA = filepath.Join(filepath.Dir(p.Cert), "authorities")
	cert, key := clitest.Certificate(t, at.Add(-time.Hour), at.Add(time.Hour))
	one, _ := clitest.Certificate(t, at, at.AddDate(1, 0, 0))
	two, _ := clitest.Certificate(t, at, at.AddDate(1, 0, 0))
	p.put(cert, key)
	authorities := func(text []byte) {
		if err := os.WriteFile(p.ClientCA, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authorities(slices.Concat(one, two))
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	both := p.At(at).ClientCAs
	authorities(one)
	if in := p.At(at.Add(2 * time.Hour)); p.State().Err != nil || in.ClientCAs.Equal(both) {
		t.Errorf("an authority stays: %v", p.State().Err)
	}
	if p.put(cert, key); p.At(at.Add(3*time.Hour)) == nil || p.State().Err != nil {
		t.Errorf("the same pair again: %v", p.State().Err)
	}
	p.put(clitest.Certificate(t, at.Add(-time.Hour), at.Add(time.Minute)))
	if p.At(at.Add(4 * time.Hour)); p.State().Err == nil {
		t.Error("another that has expired is in use")
	}
}

// TestNoLeaf: with GODEBUG=x509keypairleaf=0 a pair comes without the parsed certificate.
func TestNoLeaf(t *testing.T) {
	t.Setenv("GODEBUG", "x509keypairleaf=0")
	p := newPair(t)
	p.put(clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0)))
	if err := p.Load(at); err != nil || p.State().Version == "" {
		t.Errorf("%v, %+v", err, p.State())
	}
}

// TestGoodAgain: files that are away and come back as they were are good again, which is
// logged; and when they are away again, that is too.
func TestGoodAgain(t *testing.T) {
	p := newPair(t)
	p.put(clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0)))
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	now := at
	for i, step := range []struct{ from, to, want string }{{p.Key, p.Key + "x", "no such file"}, {p.Key + "x", p.Key, "good again"}, {p.Key, p.Key + "x", "no such file"}} {
		if err := os.Rename(step.from, step.to); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{step.want, ""} {
			now = now.Add(2 * time.Second)
			p.At(now)
			if text := p.said(); strings.Count(text, "\n") != min(1, len(want)) || !strings.Contains(text, want) {
				t.Errorf("step %d: logged %q, want %q", i, text, want)
			}
		}
	}
}

// TestDoubtOnce: the last 30 days of a certificate are one line of the log, and its end
// is another.
func TestDoubtOnce(t *testing.T) {
	p := newPair(t)
	p.put(clitest.Certificate(t, at.AddDate(0, 0, -61), at.AddDate(0, 0, 30)))
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	for h := range 24 * 31 {
		p.At(at.Add(time.Duration(h) * time.Hour))
	}
	if text := p.said(); strings.Count(text, "\n") != 2 || strings.Count(text, "expires on") != 1 || strings.Count(text, "has expired") != 1 {
		t.Errorf("logged %q", text)
	}
	if text := p.Doubt(at.AddDate(0, 0, 29).Add(time.Hour)); text != "expires on 2026-07-01, in less than a day" {
		t.Error(text)
	}
}
