package throttlegrpc

import (
	"context"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// PeerIP is the address that a call came from, as a Server's Key: an IPv4
// address, or the /64 network of an IPv6 address, as whoever has one address of
// it usually has them all. It believes no metadata; behind a proxy it is the
// proxy's address, and a Key that trusts this proxy is needed. What is not an
// IP address (a Unix socket) is returned as it is.
func PeerIP(ctx context.Context, _ string) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	from, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	ip := from.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// Metadata is a Server's Key that goes by a field of the metadata, such as an
// API key. Use it only where that has been checked before: callers write it as
// they like, and each new value is a fresh account. Calls without the field
// share one account; several values are one key.
func Metadata(name string) func(ctx context.Context, method string) string {
	return func(ctx context.Context, _ string) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ",")
	}
}
