// Package accesslog reads access logs: requests of the past, in the formats that
// proxies and servers write, from files, gzip or a pipe, in bounded memory. It parses
// on several processors and gives the requests in the order of their times.
package accesslog

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Entry is one request of a log. What the log does not tell is zero. Texts are valid as
// long as the Entry is used.
type Entry struct {
	// Time is that of the line: of the start or of the end, as its writer had it.
	Time time.Time
	// Address is that of the peer of the connection.
	Address netip.Addr
	// Method and Host are as sent. Path is decoded and without the query, RawPath as it
	// was sent where that differs.
	Method, Host, Path, RawPath string
	// NoHTTP says that the line has a place for the request line or the method, and no
	// HTTP request in it: of a connection without one, or with other bytes.
	NoHTTP bool
	// Client is the authenticated identity.
	Client string
	// Referer, Agent and Forwarded are fields of the header: Referer, User-Agent,
	// X-Forwarded-For.
	Referer, Agent, Forwarded string
	// Status is the status code of the answer, and Bytes its length.
	Status int
	Bytes  int64
	// More has the values of the Names of the Format, in their order.
	More []string
}

// field is what a part of a line is.
type field int

const (
	ignored field = iota
	fieldTime
	fieldAddress
	fieldMethod
	fieldHost
	fieldPath
	fieldRequest
	fieldClient
	fieldReferer
	fieldAgent
	fieldForwarded
	fieldStatus
	fieldBytes
	fieldMore // and above: the n-th of More
)

// aliases are the names that formats have for fields, in small letters; the first is
// that of -fields.
var aliases = map[field][]string{
	fieldTime: {"time", "ts", "timestamp", "@timestamp", "datetime", "start_time", "time_local", "time_iso8601", "msec"},
	fieldAddress: {
		"address", "addr", "ip", "remote_addr", "remote_ip", "client_ip", "clientip", "client_addr", "client_address", "remote_address",
		"source_ip", "src_ip", "c-ip", "downstream_remote_address", "downstream_remote_address_without_port", "request.remote_ip", "httprequest.remoteip",
		"clientaddr", "clienthost",
	},
	fieldMethod:    {"method", "request_method", "http_method", "verb", "cs-method", "request.method", "httprequest.requestmethod", "requestmethod"},
	fieldHost:      {"host", "http_host", "authority", "server_name", "vhost", "cs-host", "request.host", "requesthost"},
	fieldPath:      {"path", "uri", "request_uri", "url", "target", "request_path", "cs-uri-stem", "request.uri", "httprequest.requesturl", "requestpath"},
	fieldRequest:   {"request", "request_line"},
	fieldClient:    {"client", "user", "remote_user", "username", "user_name", "user_id", "auth_user"},
	fieldReferer:   {"referer", "http_referer", "referrer"},
	fieldAgent:     {"agent", "http_user_agent", "user_agent", "useragent", "user-agent", "httprequest.useragent"},
	fieldForwarded: {"forwarded", "http_x_forwarded_for", "x_forwarded_for", "x-forwarded-for", "forwarded_for", "xff"},
	fieldStatus:    {"status", "status_code", "response_code", "code", "sc-status", "httprequest.status", "downstreamstatus"},
	fieldBytes:     {"bytes", "body_bytes_sent", "bytes_sent", "size", "response_size", "sc-bytes", "httprequest.responsesize", "downstreamcontentsize"},
}

// named are the fields by their aliases.
var named = func() map[string]field {
	all := map[string]field{}
	for f, names := range aliases {
		for _, name := range names {
			all[name] = f
		}
	}
	return all
}()

// setter sets the fields of entries, one after the other.
type setter struct {
	clock clock
	slab  []string // of which More are made
	more  int      // the length of each
	given uint64   // the fields that Fields name
	has   uint64   // the fields that the line at hand has
	done  uint64   // those of them that are set
	seen  []bool   // the sources of Fields that lines had
}

// bit is that of a field below fieldMore.
func (f field) bit() uint64 { return 1 << f }

// take sets a field to a text that is not empty, unless it was set by another name.
func (s *setter) take(e *Entry, f field, text string) (what string) {
	if f >= fieldMore {
		if all := s.moreOf(e); all[f-fieldMore] == "" {
			return s.set(e, f, text)
		}
		return ""
	}
	s.has |= f.bit()
	if text == "" || text == "-" || s.done&f.bit() != 0 {
		return ""
	}
	if f == fieldRequest {
		s.request(e, text)
		return ""
	}
	s.done |= f.bit()
	return s.set(e, f, text)
}

// request sets method and path of a request line, which count unless they were set by
// names of their own before, or Fields name those.
func (s *setter) request(e *Entry, line string) {
	method, target, ok := requestLine(line)
	if !ok {
		return
	}
	if s.given&fieldMethod.bit() == 0 {
		_ = s.take(e, fieldMethod, method) // a text is never wrong
	}
	if s.given&fieldPath.bit() == 0 {
		_ = s.take(e, fieldPath, target)
	}
}

// set sets a field, or says what is wrong with its text.
func (s *setter) set(e *Entry, f field, text string) (what string) {
	if text == "-" {
		text = ""
	}
	ok := true
	switch f {
	case ignored:
	case fieldTime:
		if e.Time, ok = s.clock.parse(text); !ok {
			return "not a time: " + quoted(text)
		}
	case fieldAddress:
		if e.Address, ok = address(text); !ok {
			return "not an address: " + quoted(text)
		}
	case fieldStatus, fieldBytes:
		return e.number(f, text)
	case fieldPath:
		e.target(text)
	default:
		*s.textOf(e, f) = text
	}
	return ""
}

// textOf returns where the text of a field belongs.
func (s *setter) textOf(e *Entry, f field) *string {
	switch f {
	case fieldMethod:
		return &e.Method
	case fieldHost:
		return &e.Host
	case fieldClient:
		return &e.Client
	case fieldReferer:
		return &e.Referer
	case fieldAgent:
		return &e.Agent
	case fieldForwarded:
		return &e.Forwarded
	}
	return &s.moreOf(e)[f-fieldMore]
}

// number sets a number, or says what is wrong with its text.
func (e *Entry) number(f field, text string) (what string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" || n < 0 {
		return "not a number: " + quoted(text)
	}
	if f == fieldBytes {
		e.Bytes = n
	} else {
		e.Status = int(n)
	}
	return ""
}

// moreOf returns the More of e, which it makes if there is none.
func (s *setter) moreOf(e *Entry) []string {
	if e.More == nil {
		if len(s.slab) < s.more {
			s.slab = make([]string, 256*s.more)
		}
		e.More, s.slab = s.slab[:s.more:s.more], s.slab[s.more:]
	}
	return e.More
}

// address reads an address, with or without a port; empty and that of a Unix socket is
// none.
func address(text string) (a netip.Addr, ok bool) {
	if text == "" || strings.HasPrefix(text, "unix") || text == "@" {
		return a, true
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a, true
	}
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p.Addr(), true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a, err == nil
}

// requestLine reads a request line: METHOD TARGET PROTOCOL.
func requestLine(line string) (method, target string, ok bool) {
	method, rest, _ := strings.Cut(line, " ")
	end := strings.LastIndexByte(rest, ' ')
	if end < 0 && rest != "" { // HTTP/0.9
		end = len(rest)
	}
	if end <= 0 || method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' && r != '_' && r != '-' && (r < 'a' || r > 'z') }) {
		return "", "", false
	}
	return method, rest[:end], true
}

// target reads the target of a request: a path with a query, or a URL.
func (e *Entry) target(text string) {
	if i := strings.Index(text, "://"); i > 0 && !strings.HasPrefix(text, "/") && strings.IndexByte(text[:i], '?') < 0 {
		host := text[i+3:]
		text = "/"
		if slash := strings.IndexAny(host, "/?"); slash >= 0 {
			host, text = host[:slash], host[slash:]
		}
		if e.Host == "" {
			e.Host = host
		}
	}
	if i := strings.IndexByte(text, '?'); i >= 0 {
		text = text[:i]
	}
	e.Path = text
	if strings.IndexByte(text, '%') < 0 {
		return
	}
	if path, err := url.PathUnescape(text); err == nil {
		e.Path, e.RawPath = path, text
	}
}

// quoted returns at most 40 bytes of a text in quotes.
func quoted(text string) string {
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return strconv.Quote(text)
}
