package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestCertificatesState: what is read for the metrics says that a pair is broken, and
// which is in use still.
func TestCertificatesState(t *testing.T) {
	now := time.Now()
	cert, good := clitest.Certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	f := &certificate.Files{Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(f.Cert, cert)
	put(f.Key, good)
	if err := f.Load(now); err != nil {
		t.Fatal(err)
	}
	p := &program{own: f}
	is := p.certificates()
	if !is.OK || len(is.Version) != 12 {
		t.Errorf("a good pair: %+v", is)
	}
	put(f.Key, good[:20])
	if s := p.certificates(); s.OK || s.Version != is.Version {
		t.Errorf("half a key: %+v, want no OK and version %s", s, is.Version)
	}
	put(f.Key, good)
	if !p.certificates().OK {
		t.Error("the good key again is not OK")
	}
}
