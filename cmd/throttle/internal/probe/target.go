package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outgoing"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/signal"
)

const (
	maxDrained = 1 << 20 // bytes of an answer that are read, so that its connection is used again
)

// target is what requests are sent to. It is safe for concurrent use.
type target struct {
	method  string
	url     *url.URL
	header  http.Header
	body    []byte
	timeout time.Duration
	dialect *signal.Dialect
	// insecure accepts any certificate.
	insecure bool
	client   *http.Transport
}

// readURL reads a URL that may be asked.
func readURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Scheme != "http" && u.Scheme != "https":
		return nil, usage.Errorf("find: %s: want a URL with http:// or https://", words.Quote(words.URL(text)))
	case err != nil || u.Hostname() == "":
		return nil, usage.Errorf("find: %s is not a URL; want one such as https://api.example.com/things%s", words.BadURL(text), words.Brackets(text))
	case words.BadPort(u) != "":
		return nil, usage.Errorf("find: %s: %s", words.Quote(words.URL(text)), words.BadPort(u))
	}
	return u, nil
}

// connect makes the client, which uses no proxy of the environment. One that asks
// this machine connects to nothing else, whatever a name resolves to.
func (t *target) connect(atOnce int) {
	dialer := net.Dialer{Timeout: t.timeout}
	if outgoing.Loopback(t.url) {
		dialer.Control = outgoing.StayHere
	}
	t.client = &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: t.insecure},
		ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
		MaxIdleConns: atOnce, MaxIdleConnsPerHost: atOnce, IdleConnTimeout: time.Hour,
	}
}

func (t *target) close() { t.client.CloseIdleConnections() }

// send sends one request and returns its answer. An answer that did not come
// has no status; the error says why.
func (t *target) send(ctx context.Context) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	var times stopwatch
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, times.trace()), t.method, t.url.String(), bytes.NewReader(t.body))
	if err != nil {
		return seen{}, usage.Errorf("find: %v", err)
	}
	r.Header = t.header.Clone()
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if u := t.url.User; u != nil && r.Header.Get("Authorization") == "" { // a transport sends no such field by itself
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	begun := time.Now()
	a, err := t.client.RoundTrip(r) // no redirects, no cookies
	s := seen{sent: times.connected(begun), ended: times.answered(time.Now())}
	if err != nil {
		return s, errors.New(words.OneLine(plainError(err, t.timeout)))
	}
	defer a.Body.Close()
	s.status = a.StatusCode
	for name, values := range a.Header {
		for _, v := range values {
			s.keep(name, v)
		}
	}
	if t.dialect.WantsBody(s.status) {
		s.body, _ = io.ReadAll(io.LimitReader(a.Body, signal.MaxBody))
	}
	io.CopyN(io.Discard, a.Body, maxDrained)
	if location := a.Header.Get("Location"); location != "" && s.status >= 300 && s.status < 400 {
		return s, errors.New("it redirects to " + t.elsewhere(location) + "; name that URL")
	}
	return s, nil
}

// elsewhere is a redirect's target in full, without what may be secret.
func (t *target) elsewhere(location string) string {
	u, err := t.url.Parse(location)
	if err != nil {
		return words.Quote(location)
	}
	return words.Quote(words.URL(u.String()))
}

// stopwatch takes the times between which a server decides: from when there is a
// connection to when the answer begins. A transport may try twice; the first
// connection and the last answer count.
type stopwatch struct {
	mu     sync.Mutex
	conn   time.Time
	answer time.Time
}

func (w *stopwatch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.conn.IsZero() {
				w.conn = time.Now()
			}
		},
		GotFirstResponseByte: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answer = time.Now()
		},
	}
}

func (w *stopwatch) connected(begun time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn.IsZero() {
		return begun
	}
	return w.conn
}

func (w *stopwatch) answered(now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer.IsZero() {
		return now
	}
	return w.answer
}

// plainError says in a line why no answer came.
func plainError(err error, timeout time.Duration) string {
	var (
		dns      *net.DNSError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		expired  x509.CertificateInvalidError
		record   tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + words.Short(timeout)
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no host " + words.Quote(dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: connection refused; is the service running?"
	case errors.Is(err, io.EOF):
		return "the connection was closed before an answer"
	case errors.As(err, &unknown):
		return "TLS: the certificate is signed by an unknown authority; -insecure accepts any"
	case errors.As(err, &hostname), errors.As(err, &expired), errors.As(err, &verify):
		return "TLS: " + strings.TrimPrefix(err.Error(), "tls: failed to verify certificate: ")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "TLS: the server speaks plain HTTP; write http://"
	case strings.Contains(err.Error(), "malformed HTTP response"):
		return "the answer is not HTTP; a server with TLS wants https://"
	}
	return err.Error()
}
