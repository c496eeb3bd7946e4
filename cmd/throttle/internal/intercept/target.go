package intercept

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// httpsPort is that of https, and of a list where none is written.
const httpsPort = 443

// A Target is a host with a port, as CONNECT names it.
type Target struct {
	// Host is a name in lower case without a dot at its end, or an IP address.
	Host string
	// Port is from 1 to 65535.
	Port uint16
}

// String returns the target as HOST:PORT.
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// Authority returns the target as it stands in a URL of https: without the port 443.
func (t Target) Authority() string {
	switch {
	case t.Port != httpsPort:
		return t.String()
	case strings.Contains(t.Host, ":"):
		return "[" + t.Host + "]"
	}
	return t.Host
}

// Addr returns the address that the host is; invalid for a name.
func (t Target) Addr() netip.Addr {
	a, _ := netip.ParseAddr(t.Host) // invalid for a name
	return a
}

// ParseTarget reads the HOST:PORT of a CONNECT request. The error says in a few words what
// is wrong and what would be right.
func ParseTarget(text string) (t Target, err error) {
	host, port, ok := cutPort(text)
	if !ok {
		return t, fmt.Errorf("want HOST:PORT, as api.example.com:443%s", words.Brackets(text))
	}
	if t.Host, err = parseHost(host); err != nil {
		return Target{}, err
	}
	if t.Port, err = parsePort(port); err != nil {
		return Target{}, err
	}
	return t, nil
}

// ParseHost reads a host as people write it into a list, with or without a port; without
// one it is 443.
func ParseHost(text string) (Target, error) {
	if strings.Contains(text, "/") {
		return Target{}, errors.New("want a host alone, as api.example.com, without https:// and without a path")
	}
	if _, _, ok := cutPort(text); !ok && !strings.Contains(text, ":") {
		text += ":443"
	} else if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && a.Is6() {
		text = net.JoinHostPort(a.String(), "443")
	}
	return ParseTarget(text)
}

// cutPort parts HOST:PORT. The host of an address of IPv6 keeps its brackets.
func cutPort(text string) (host, port string, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || words.BareIPv6(text) || strings.HasSuffix(text, "]") {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}

var (
	errNoHost  = errors.New("the host is missing; want HOST:PORT, as api.example.com:443")
	errNumeric = errors.New("the host is a number and no IPv4 address; want four numbers from 0 to 255 without leading zeros")
	errPort    = errors.New("the port must be a number from 1 to 65535")
)

// parsePort reads a port, written in the one usual way.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, errPort
	}
	return uint16(n), nil
}

// parseHost returns a host in the form of Target.Host.
func parseHost(text string) (string, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !strings.HasSuffix(inner, "]") || !a.Is6() || a.Zone() != "" {
			return "", errors.New("want an IPv6 address without a zone in the brackets")
		}
		return a.Unmap().String(), nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
		return a.String(), nil
	}
	host := strings.TrimSuffix(strings.ToLower(text), ".")
	if host == "" {
		return "", errNoHost
	}
	return host, checkName(host)
}

// checkName refuses what is no name of DNS, and numbers that some resolvers take for an
// IPv4 address, as 127.1, 0x7f000001 and 017700000001.
func checkName(host string) error {
	if len(host) > 253 {
		return errors.New("the host is longer than 253 characters")
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return errNumeric
	}
	return nil
}

// checkLabel refuses what cannot stand between the dots of a name.
func checkLabel(label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("between the dots of a host stand 1 to 63 characters, the first and the last of which is no hyphen")
	}
	for _, c := range []byte(label) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '@':
			return errors.New("the host has an @; a user and a password cannot stand here")
		case c >= 0x80:
			return errors.New("write the host in ASCII, as xn--bcher-kva.example for bücher.example")
		default:
			return fmt.Errorf("the host has %q; a name has letters, digits, hyphens and dots", c)
		}
	}
	return nil
}
