package throttlehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

const (
	maxHeld    = 16 << 10 // bytes of an answer kept in memory while it may still be returned
	maxDrained = 64 << 10 // bytes of an answer read to keep its connection; more are cut off
)

// call is one request on its way through a Transport, in one goroutine.
type call struct {
	base    http.RoundTripper
	req     *http.Request
	rewinds bool // there is a body for a second try
	repeats bool // it may be executed twice

	sent   bool           // Base was given the body of req, and closes it
	answer *http.Response // of the last try
	final  bool           // no other try may follow
	err    error          // of the last try, when there is no answer
}

// try makes the request once.
func (c *call) try(context.Context) error {
	c.discard()
	req, err := c.next()
	if err != nil {
		return throttle.Ignore(err)
	}
	c.answer, c.err = c.base.RoundTrip(req)
	if c.err != nil {
		c.answer = nil
		return c.broken()
	}
	if c.answer.Body == nil { // a careless Base
		c.answer.Body = http.NoBody
	}
	return c.judge(time.Now())
}

// next is the request of the next try. Its context is the caller's own, as an
// answer's body is read long after the Throttle is done.
func (c *call) next() (*http.Request, error) {
	req := c.req.Clone(c.req.Context())
	if c.sent && c.req.GetBody != nil {
		body, err := c.req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	c.sent = true
	return req, nil
}

// broken says how a try without an answer ended.
func (c *call) broken() error {
	var cert *tls.CertificateVerificationError
	if c.req.Context().Err() != nil || errors.As(c.err, &cert) {
		return throttle.Ignore(c.err) // says nothing about load, and no retry helps
	}
	return c.say(pace.Outcome{Verdict: pace.Failed}, c.err, c.rewinds && c.repeats)
}

// judge says what an answer means.
func (c *call) judge(now time.Time) error {
	a := c.answer
	s := signal.Read(a.StatusCode, fields(a.Header), now)
	o := s.Outcome()
	again := c.rewinds
	switch a.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusServiceUnavailable:
		again = again && (c.repeats || s.After.OK)
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		again = again && c.repeats
	default: // also 500, which as a rule is the same the next time
		o.Verdict, o.After = pace.Served, 0
		return &throttle.Result{Outcome: o}
	}
	e := &StatusError{Code: a.StatusCode, Header: a.Header}
	if again {
		e.Body = bytes.Clone(hold(a))
	}
	return c.say(o, e, again)
}

// say is the word on a try that was not served.
func (c *call) say(o pace.Outcome, err error, again bool) error {
	o.Final, c.final = !again, !again
	return &throttle.Result{Outcome: o, Err: err}
}

// end makes of what the Throttle returned what RoundTrip returns.
func (c *call) end(err error) (*http.Response, error) {
	if !c.sent && c.req.Body != nil {
		c.req.Body.Close()
	}
	switch {
	case err == nil:
		return c.answer, nil
	case c.final:
		return c.answer, c.err
	case c.answer == nil:
		return nil, err
	}
	var gaveUp *throttle.Error
	if !errors.As(err, &gaveUp) || gaveUp.Reason == throttle.ErrTries {
		return c.answer, nil
	}
	c.discard()
	return nil, err
}

// discard gets rid of the last answer, so that its connection can be used
// again.
func (c *call) discard() {
	if c.answer == nil {
		return
	}
	io.CopyN(io.Discard, c.answer.Body, maxDrained) // an error means a connection less, no more
	c.answer.Body.Close()
	c.answer = nil
}

// hold reads the beginning of an answer that another try is likely to replace,
// and if that is all of it, frees its connection: a rest may be long. The
// answer is as good as before. The first bytes, for an error, are returned.
func hold(a *http.Response) (head []byte) {
	held, err := io.ReadAll(io.LimitReader(a.Body, maxHeld+1))
	rest := a.Body
	switch {
	case err != nil:
		rest.Close()
		a.Body = io.NopCloser(io.MultiReader(bytes.NewReader(held), failing{err}))
	case len(held) <= maxHeld:
		rest.Close()
		a.Body = io.NopCloser(bytes.NewReader(held))
	default:
		a.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(held), rest), rest}
	}
	return held[:min(len(held), maxSnippet)]
}

// failing is a reader of nothing but an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
