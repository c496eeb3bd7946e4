package intercept

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
)

// The files of an authority, in its directory.
const (
	CertificateFile = "ca.pem"
	KeyFile         = "ca.key"
	// BundleFile has the authorities of the system and this one, for programs that
	// trust either a file or the system.
	BundleFile = "bundle.pem"
)

// maxFile bounds the bytes that are read of a file of an authority.
const maxFile = 64 << 10

// Read reads an authority from a directory. The error is one line; it wraps fs.ErrNotExist
// if there is neither a key nor a certificate.
func Read(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	name := filepath.Join(dir, CertificateFile)
	key, err := ReadKey(dir)
	if err != nil {
		if _, alone := os.Stat(name); alone == nil && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is missing beside its certificate; bring it back, or remove %s to make another CA", filepath.Join(dir, KeyFile), dir)
		}
		return nil, nil, err
	}
	block, err := readBlock(name, "CERTIFICATE")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // the key is there
			err = fmt.Errorf("%s is missing beside its key; run 'throttle ca -renew -dir %s -hosts ...'", name, dir)
		}
		return nil, nil, err
	}
	c, err := x509.ParseCertificate(block)
	if err == nil {
		err = checkAuthority(c, key)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; make one by 'throttle ca'", name, err)
	}
	return c, key, nil
}

// ReadKey reads the private key of an authority. It refuses one that others than its owner
// may read.
func ReadKey(dir string) (*ecdsa.PrivateKey, error) {
	name := filepath.Join(dir, KeyFile)
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if exposed(info) {
		return nil, fmt.Errorf("%s: others than its owner may use it (mode %04o); run 'chmod 600 %s', or make another CA if somebody may have copied it", name, info.Mode().Perm(), name)
	}
	block, err := readBlock(name, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: is no key of ECDSA; make one by 'throttle ca'", name)
	}
	return key, nil
}

// othersMay reports whether others than a process of self may use a file of owner. The group
// of a file of root may read it: Kubernetes mounts secrets so for a pod with a fsGroup.
func othersMay(mode fs.FileMode, owner, self int) bool {
	if owner == 0 && self != 0 {
		mode &^= 0o040
	}
	return mode.Perm()&0o077 != 0
}

// readBlock reads a file that has one block of PEM.
func readBlock(name, kind string) ([]byte, error) {
	f, err := infile.OpenAgain(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s: want one block of PEM, -----BEGIN %s-----", name, kind)
	}
	return block.Bytes, nil
}

// WriteKey writes a new key into a directory, which it makes if need be. It never writes
// over one: the error wraps fs.ErrExist then.
func WriteKey(dir string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, KeyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Sync(), f.Close())
	if err != nil {
		os.Remove(f.Name()) // half a key is none
	}
	return err
}

// WriteCertificate writes the certificate of an authority, whole or not at all, and the
// bundle of it and roots, the authorities of the system in PEM form. Without roots there is
// no bundle.
func WriteCertificate(dir string, c *x509.Certificate, roots []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	if err := write(filepath.Join(dir, CertificateFile), text); err != nil || len(roots) == 0 {
		return err
	}
	return write(filepath.Join(dir, BundleFile), bytes.Join([][]byte{bytes.TrimSpace(roots), text}, []byte("\n")))
}

func write(name string, text []byte) error {
	return outfile.Write(name, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
