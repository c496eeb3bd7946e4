// Package ca is the command 'throttle ca': it makes and renews the authority by which
// 'throttle egress' terminates the TLS of the APIs that it paces, and says how clients
// trust it.
package ca

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const help = `throttle ca makes the local authority (CA) with which 'throttle egress -intercept'
paces and retries the HTTPS requests of programs that use HTTPS_PROXY.

Usage: throttle ca -hosts HOST[,HOST] [flags]   make it
       throttle ca [flags]                      say what it is, and how to trust it
       throttle ca -renew [flags]               make its certificate again

The certificate permits these hosts and names below them, and nothing else:
an attacker with the key can speak for no other host, except to Java, which
ignores that. It is valid for a year.

Flags:
  -hosts HOSTS  the hosts of the APIs, separated by commas, as
                api.github.com,api.openai.com
  -dir DIR      where it is, default throttle/ca in your configuration directory
  -renew        make the certificate again, for another year, for -hosts or the
                hosts that it has; the key stays, so that clients that trust the
                old certificate go on until that ends

It writes DIR/ca.pem, the certificate; DIR/ca.key, the key, which only the proxy
may read; and DIR/bundle.pem, the certificate after the authorities of this
system, for programs that trust either a file or the system. It writes over none
of them without -renew. After a theft of the key remove DIR and make another.

Examples:
  throttle ca -hosts api.github.com,api.openai.com
  throttle egress -to https://api.github.com -intercept api.github.com
`

// Dir returns where the authority is if nothing else is said.
func Dir() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", usage.Errorf("ca: there is no configuration directory (%v); write -dir DIR", err)
	}
	return filepath.Join(dir, "throttle", "ca"), nil
}

// options are what the command line asks for.
type options struct {
	hosts []string
	dir   string
	renew bool
}

// Run makes an authority, or says what it is.
func Run(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	return o.run(stdout, time.Now())
}

func optionsOf(args []string) (*options, error) {
	o, hosts := new(options), ""
	flags := flag.NewFlagSet("ca", flag.ContinueOnError)
	flags.StringVar(&hosts, "hosts", "", "")
	flags.StringVar(&o.dir, "dir", "", "")
	flags.BoolVar(&o.renew, "renew", false, "")
	names, err := usage.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, usage.Errorf("ca: %s is too much; write 'throttle ca -hosts HOST[,HOST]'", words.Quote(names[0]))
	}
	if o.dir == "" {
		if o.dir, err = Dir(); err != nil {
			return nil, err
		}
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return nil, exit.Failf("ca: -dir: %v", err)
	}
	if info, err := os.Stat(o.dir); err == nil && !info.IsDir() {
		return nil, usage.Errorf("ca: -dir %s: is a file; name a directory", words.Quote(o.dir))
	}
	o.hosts, err = hostsOf(hosts)
	return o, err
}

// hostsOf reads hosts with commas between them, sorted.
func hostsOf(text string) (all []string, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		t, err := intercept.ParsePermitted(strings.TrimSpace(one))
		switch {
		case err != nil:
			return nil, usage.Errorf("ca: -hosts %s: %v", words.Quote(one), err)
		case t.Port != 443 || strings.HasSuffix(one, ":443"):
			return nil, usage.Errorf("ca: -hosts %s: a certificate has no port; write %s", words.Quote(one), t.Host)
		}
		all = append(all, t.Host)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > intercept.MaxHosts {
		return nil, usage.Errorf("ca: -hosts: has %d hosts; an authority is for %d at most", len(all), intercept.MaxHosts)
	}
	return all, nil
}

// run makes, renews or shows the authority in dir.
func (o *options) run(stdout io.Writer, now time.Time) error {
	c, _, err := intercept.Read(o.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(o.hosts) == 0:
		return usage.Errorf("ca: there is none in %s; write -hosts HOST[,HOST] to make one", o.dir)
	case errors.Is(err, fs.ErrNotExist):
		return o.create(stdout, now)
	case o.renew:
		return o.again(stdout, c, now)
	case err != nil:
		return exit.Failf("ca: %v", err)
	case len(o.hosts) > 0 && !slices.Equal(o.hosts, intercept.Permitted(c)):
		return usage.Errorf("ca: the one in %s is for %s; add -renew to make it for %s", o.dir, list(intercept.Permitted(c)), list(o.hosts))
	}
	return o.report(stdout, c, "is", now)
}

// create makes a key and its certificate.
func (o *options) create(stdout io.Writer, now time.Time) error {
	key, err := intercept.NewKey()
	if err == nil {
		err = intercept.WriteKey(o.dir, key)
	}
	if err != nil {
		return exit.Failf("ca: %v", err)
	}
	return o.certify(stdout, key, now)
}

// again makes the certificate of the key that is there once more, for the hosts of the
// command line, or those of old, which may be nil.
func (o *options) again(stdout io.Writer, old *x509.Certificate, now time.Time) error {
	key, err := intercept.ReadKey(o.dir)
	if err != nil {
		return exit.Failf("ca: %v", err)
	}
	if len(o.hosts) == 0 {
		if old == nil {
			return usage.Errorf("ca: no certificate in %s says for which hosts it is; write -hosts HOST[,HOST]", o.dir)
		}
		o.hosts = intercept.Permitted(old)
	}
	return o.certify(stdout, key, now)
}

// certify writes the certificate of a key and the bundle, and reports.
func (o *options) certify(stdout io.Writer, key *ecdsa.PrivateKey, now time.Time) error {
	c, err := intercept.NewCertificate(key, o.hosts, now)
	if err == nil {
		_, roots := SystemRoots(o.dir)
		err = intercept.WriteCertificate(o.dir, c, roots)
	}
	if err != nil {
		return exit.Failf("ca: %v", err)
	}
	return o.report(stdout, c, "made", now)
}

// list writes hosts for people.
func list(hosts []string) string {
	if n := len(hosts); n > 1 {
		return fmt.Sprintf("%s and %s", strings.Join(hosts[:n-1], ", "), hosts[n-1])
	}
	return strings.Join(hosts, "")
}
