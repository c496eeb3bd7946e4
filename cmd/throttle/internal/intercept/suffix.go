package intercept

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// errSuffix refuses a public suffix.
var errSuffix = errors.New("is a public suffix, below which anyone may have a host; write the host of the API, as api.example.com")

// ParsePermitted reads a host as ParseHost does, for which an authority is to speak. It
// refuses a name below which a registry gives names to anyone, as com and co.uk: a
// constraint on a name includes all that are below it.
func ParsePermitted(text string) (Target, error) {
	t, err := ParseHost(text)
	if err == nil && suffix(t.Host, true) {
		err = errSuffix
	}
	return t, err
}

// Shared returns those of hosts below which a company gives names to its customers, as
// s3.amazonaws.com. Such a host may be that of an API itself.
func Shared(hosts []string) (all []string) {
	for _, host := range hosts {
		if suffix(host, false) {
			all = append(all, host)
		}
	}
	return all
}

// suffix reports whether a host is a public suffix, of a registry or else of a company. An
// address is none, nor is a name of one label that is not in the list, as localhost.
func suffix(host string, registry bool) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	found, listed := publicsuffix.PublicSuffix(host)
	return found == host && listed == registry && (listed || strings.Contains(host, "."))
}
