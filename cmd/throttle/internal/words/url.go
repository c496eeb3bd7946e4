package words

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// URL returns a URL without what may be secret: its password, and its query. One
// with an @ behind its host may have a password with a / in it, and is not shown.
func URL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(no URL)"
	}
	if StrayAt(u) {
		return u.Scheme + "://…"
	}
	u.Fragment = ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.Redacted()
}

// StrayAt reports whether a URL has an @ behind its host. The text before it may be a
// password in which /, ? or # is not escaped.
func StrayAt(u *url.URL) bool {
	return strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment()+u.Opaque, "@")
}

// BadPort says that a URL has a port to which no connection can be made; empty if it has
// none such.
func BadPort(u *url.URL) string {
	if u.Port() == "" {
		return ""
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return "the port must be a number from 1 to 65535"
	}
	return ""
}

// IsHostPort reports whether a socket can listen at text: HOST:PORT, the port a number or the
// name of a service.
func IsHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// FieldName returns a header field for an error: the text before its colon or first
// blank, and … in place of the rest, or of all of it: that may be a token.
func FieldName(field string) string {
	if i := strings.IndexAny(field, ": \t\r\n"); i > 0 {
		return Quote(field[:i] + "…")
	}
	return "…"
}

// BadURL returns a mistyped URL for an error: as Quote does if no part of it can be
// a password, else a word in its place.
func BadURL(text string) string {
	_, host, _ := strings.Cut(text, "//")
	host, _, _ = strings.Cut(host, "/")
	_, port, _ := strings.Cut(host, ":")
	if strings.ContainsAny(text, "@?#") || strings.Trim(port, "0123456789") != "" {
		return "(not shown)"
	}
	return Quote(text)
}

// BareIPv6 reports whether a host lacks a bracket around an address of IPv6, whose last
// group cannot be told from a port.
func BareIPv6(host string) bool {
	if strings.HasPrefix(host, "[") {
		return !strings.Contains(host, "]")
	}
	return strings.Count(host, ":") > 1 && strings.Trim(host, "0123456789abcdefABCDEF.:") == ""
}

// Brackets returns what an error about a URL or HOST:PORT adds if its host is a BareIPv6;
// empty if not.
func Brackets(text string) string {
	if _, host, found := strings.Cut(text, "//"); found {
		text = host
	}
	text, _, _ = strings.Cut(text, "/")
	if !BareIPv6(text) {
		return ""
	}
	return "; write an IPv6 address in [ ], as [::1]:PORT"
}
