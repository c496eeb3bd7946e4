package throttlegrpc

import (
	"context"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// PeerIP returns the address that a call came from, for Server.Key: an IPv4
// address, or the /64 network of an IPv6 address, as one caller usually has all
// of it; a link-local address (fe80::/10) is one caller. It reads no metadata;
// behind a proxy it is the address of the proxy, and a Key that trusts this
// proxy is needed. A peer address that is not an IP address (a Unix socket) is
// returned unchanged.
func PeerIP(ctx context.Context, _ string) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	from, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	ip := from.Addr().Unmap().WithZone("")
	if ip.Is4() || ip.IsLinkLocalUnicast() { // all hosts of a link are in one network
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// Metadata returns a Server.Key by a field of the metadata, such as an API key.
// Use it only where the field was checked before: callers may set it freely,
// and each new value is a new key with an unused limit. Calls without the field
// share one key; several values make one key.
func Metadata(name string) func(ctx context.Context, method string) string {
	return func(ctx context.Context, _ string) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ",")
	}
}
