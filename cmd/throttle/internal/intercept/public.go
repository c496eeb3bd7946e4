package intercept

import "net/netip"

// special are the networks whose addresses are not those of a host in the Internet, by the
// registries of IANA for special purposes, and by habit.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("168.63.129.16/32"), // by which Azure tells a machine its secrets
}

var (
	// global is all of IPv6 that is in use in the Internet.
	global = netip.MustParsePrefix("2000::/3")
	// translated has an IPv4 address in its last 32 bits (NAT64).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// Public reports whether an address is one of the Internet: not of loopback, a private
// network, a link, a group, or another special purpose. 169.254.169.254, by which clouds
// tell a machine its secrets, is not.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if translated.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsValid() || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, n := range special {
		if n.Contains(a) {
			return false
		}
	}
	return true
}
