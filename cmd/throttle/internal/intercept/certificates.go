package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// Life is how long the certificate of an authority counts.
	Life = 365 * 24 * time.Hour
	// leafLife is how long the certificate of a host counts.
	leafLife = 7 * 24 * time.Hour
	// early is how long before its making a certificate counts: clocks differ.
	early = time.Hour
	// MaxHosts bounds the hosts of an authority, and the certificates that it keeps.
	MaxHosts = 256
	// nobody is the one name that is permitted where no other is. Without any, an
	// authority could speak for all names. It is reserved: nobody has it.
	nobody = "invalid"
)

// NewKey returns a private key.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// NewCertificate returns the certificate of an authority with that key, from now for a Life.
// It permits hosts only, and only servers of TLS; names below those of hosts are permitted
// too, as X.509 has it.
func NewCertificate(key *ecdsa.PrivateKey, hosts []string, now time.Time) (*x509.Certificate, error) {
	c, err := authorityTemplate(hosts, now)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(public)
	c.Subject = pkix.Name{CommonName: "throttle egress CA " + hex.EncodeToString(sum[:4])}
	c.SubjectKeyId = sum[:20]
	return sign(c, c, key, key)
}

// authorityTemplate is the certificate of an authority, but for its key.
func authorityTemplate(hosts []string, now time.Time) (*x509.Certificate, error) {
	if len(hosts) == 0 || len(hosts) > MaxHosts {
		return nil, fmt.Errorf("an authority is for 1 to %d hosts, not for %d", MaxHosts, len(hosts))
	}
	c := &x509.Certificate{
		NotBefore: now.Add(-early), NotAfter: now.Add(Life), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, PermittedDNSDomainsCritical: true,
	}
	families := map[int]bool{} // of the addresses that are permitted, by their length
	for _, host := range hosts {
		a, err := netip.ParseAddr(host)
		if err != nil {
			c.PermittedDNSDomains = append(c.PermittedDNSDomains, host)
			continue
		}
		families[a.BitLen()] = true
		c.PermittedIPRanges = append(c.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
	}
	if len(c.PermittedDNSDomains) == 0 {
		c.PermittedDNSDomains = []string{nobody}
	}
	for _, all := range []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: make(net.IPMask, 4)}, {IP: net.IPv6zero, Mask: make(net.IPMask, 16)}} {
		if !families[8*len(all.IP)] {
			c.ExcludedIPRanges = append(c.ExcludedIPRanges, all)
		}
	}
	return c, nil
}

// Permitted returns the hosts for which an authority can speak, sorted.
func Permitted(c *x509.Certificate) []string {
	var hosts []string
	for _, name := range c.PermittedDNSDomains {
		if name != nobody {
			hosts = append(hosts, name)
		}
	}
	for _, n := range c.PermittedIPRanges {
		if a, ok := netip.AddrFromSlice(n.IP); ok {
			hosts = append(hosts, a.String())
		}
	}
	slices.Sort(hosts)
	return hosts
}

// newLeaf returns the certificate of a host, signed by an authority. It does not outlive
// that. The error is a refusal of crypto/x509: clients would refuse the certificate too.
func newLeaf(host string, key *ecdsa.PrivateKey, ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time) (*x509.Certificate, error) {
	until := now.Add(leafLife)
	if until.After(ca.NotAfter) {
		until = ca.NotAfter
	}
	c := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"throttle egress"}}, NotBefore: now.Add(-early), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if a, err := netip.ParseAddr(host); err == nil {
		c.IPAddresses = []net.IP{a.AsSlice()}
	} else {
		c.DNSNames = []string{host}
	}
	leaf, err := sign(c, ca, key, caKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return leaf, err
}

// sign signs a certificate for a key.
func sign(c, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// checkAuthority says why a certificate is not that of an authority which NewCertificate
// could have made.
func checkAuthority(c *x509.Certificate, key *ecdsa.PrivateKey) error {
	switch {
	case !key.PublicKey.Equal(c.PublicKey):
		return errors.New("is not the certificate of the key beside it")
	case !c.IsCA || !c.BasicConstraintsValid:
		return errors.New("is not the certificate of an authority")
	case !c.PermittedDNSDomainsCritical || len(c.PermittedDNSDomains) == 0 || len(c.PermittedIPRanges)+len(c.ExcludedIPRanges) == 0:
		return errors.New("is not limited to some hosts: an attacker with its key could speak for all")
	}
	for _, host := range Permitted(c) {
		if suffix(host, true) {
			return fmt.Errorf("is for %s, which %w", host, errSuffix)
		}
	}
	return nil
}
