package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
)

// TestCertificatesState: what is read for the metrics says that a pair is broken, and
// which is in use still.
func TestCertificatesState(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := &certificate.Files{Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	good := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
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
