package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outgoing"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// MaxAnswer bounds the body of an answer, in bytes: a longer one counts as failed.
const MaxAnswer = 64 << 20

// HTTP sends one HTTP request again and again. NewHTTP makes it. It is safe for
// concurrent use.
type HTTP struct {
	request *http.Request // never sent itself
	body    []byte
	client  *http.Transport
}

// Request holds the fields of the request that an HTTP target sends.
type Request struct {
	// URL has the scheme http, https (HTTP/2 where the server has it) or h2c
	// (HTTP/2 in plain text).
	URL *url.URL
	// Method is GET if empty, or POST if there is a Body.
	Method string
	Header http.Header
	Body   []byte
	// Insecure accepts any certificate.
	Insecure bool
	// Away lets connections go to other machines than this one. If not set,
	// addresses that are not loopback are refused.
	Away bool
	// Idle bounds the connections that are kept. If zero, DefaultInFlight.
	Idle int
}

// NewHTTP returns a target. Connections are kept and used again; no proxy of the
// environment is used, and no redirect followed.
func NewHTTP(r Request) (*HTTP, error) {
	if r.Method == "" && len(r.Body) > 0 {
		r.Method = http.MethodPost
	}
	if r.Idle <= 0 {
		r.Idle = DefaultInFlight
	}
	u := *r.URL
	client := &http.Transport{
		DialContext:         dialer(r.Away).DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: r.Insecure},
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // unpacking would load this machine
		MaxIdleConns:        r.Idle,
		MaxIdleConnsPerHost: r.Idle,
		IdleConnTimeout:     time.Minute,
	}
	if u.Scheme == "h2c" {
		u.Scheme = "http"
		client.Protocols = new(http.Protocols)
		client.Protocols.SetUnencryptedHTTP2(true)
	}
	request, err := http.NewRequest(r.Method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if r.Header != nil {
		request.Header = r.Header.Clone()
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	if u.User != nil && request.Header.Get("Authorization") == "" { // a transport sends no such field by itself
		password, _ := u.User.Password()
		request.SetBasicAuth(u.User.Username(), password)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "throttle-find")
	}
	return &HTTP{request: request, body: r.Body, client: client}, nil
}

// dialer connects, to other machines only if that is allowed: a name may lead
// elsewhere than when it was looked up before.
func dialer(away bool) *net.Dialer {
	d := &net.Dialer{Timeout: 30 * time.Second}
	if !away {
		d.Control = outgoing.StayHere
	}
	return d
}

// Close ends the connections that are kept.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Send sends the request and reads the answer to its end. 429 and 503 are
// refusals, 2xx is good, all else failed.
func (h *HTTP) Send(ctx context.Context) (Verdict, error) {
	resp, err := h.once(ctx)
	switch {
	case err != nil && exhausted(err):
		return Dropped, err
	case err != nil:
		return Failed, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return Refused, fmt.Errorf("answer %s", resp.Status)
	case code/100 != 2:
		return Failed, fmt.Errorf("answer %s", resp.Status)
	}
	return Good, nil
}

// once sends one request and returns the answer, its body read.
func (h *HTTP) once(ctx context.Context) (*http.Response, error) {
	request := h.request.WithContext(ctx)
	if len(h.body) > 0 {
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(h.body)), int64(len(h.body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(h.body)), nil }
	}
	resp, err := h.client.RoundTrip(request) // no redirects, no cookies
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // all that matters has been read
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case n > MaxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d MiB", MaxAnswer>>20)
	}
	return resp, nil
}

// exhausted reports whether this machine has no socket left: not the service's
// fault.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Probe sends one request before any load, and explains in one line why the
// service cannot be loaded. A refusal is no error.
func (h *HTTP) Probe(ctx context.Context) error {
	resp, err := h.once(ctx)
	if err != nil {
		return errors.New(explain(err))
	}
	switch code := resp.StatusCode; {
	case code/100 == 3 && resp.Header.Get("Location") != "":
		to := "(no URL)"
		if u, err := h.request.URL.Parse(resp.Header.Get("Location")); err == nil {
			to = words.URL(u.String())
		}
		return fmt.Errorf("answers %s to %s; redirects are not followed: give the URL that is meant", resp.Status, to)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable, code/100 == 2:
		return nil
	}
	return fmt.Errorf("answers %s; only 2xx counts as served: give a path that is answered so (or -method, -H, -d)", resp.Status)
}

// explain is an error of a first request, in one line.
func explain(err error) string {
	var (
		cert *tls.CertificateVerificationError
		head tls.RecordHeaderError
		name *net.DNSError
	)
	switch {
	case errors.As(err, &cert):
		return fmt.Sprintf("TLS: %v; -insecure accepts any certificate", cert.Err)
	case errors.As(err, &head):
		return "TLS: the first bytes are no TLS; is it http:// ?"
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("no host %q", name.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused; is the service running?"
	case errors.Is(err, io.EOF):
		return "the connection was closed before an answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time; -timeout D waits longer"
	case errors.Is(err, outgoing.ErrAway):
		return err.Error() + "; the name leads to another machine"
	}
	return err.Error()
}
