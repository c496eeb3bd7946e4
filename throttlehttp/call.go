package throttlehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
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
	dialect *signal.Dialect
	bodies  bool // the beginning of bodies is looked at too
	splits  *splits
	scope   string          // of the Transport
	needs   []throttle.Need // all limits that it is known to come under besides
	told    bool            // whether this server has ever told of any
	route   string          // made when it is first needed, as is user
	user    string
	warn    func(req *http.Request, sent int) // of layers underneath that retry; nil: nobody is told

	sent   bool // Base was given the body of req, and closes it
	tries  int
	link   *link          // to what is known of all tries
	nested bool           // in a Transport, which makes it again
	tap    *tap           // of the last try, as are what follows
	answer *http.Response // of the last try
	final  bool           // no other try may follow
	err    error          // of the last try, when there is no answer
}

// try makes the request once.
func (c *call) try(context.Context) throttle.Result {
	c.discard()
	req, err := c.next()
	if err != nil {
		return throttle.Result{Err: err}
	}
	c.tries++
	c.answer, c.err = c.base.RoundTrip(req)
	if n := c.tap.layers(); n > 0 && c.warn != nil {
		c.warn(c.req, n)
	}
	if c.err != nil {
		c.answer = nil
		c.note(c.tap.broke(c.err))
		return c.broken()
	}
	if c.answer.Body == nil { // a careless Base
		c.answer.Body = http.NoBody
	}
	if c.answer.Request == nil {
		c.answer.Request = req
	}
	return c.judge(time.Now())
}

// note keeps that a try may have been executed.
func (c *call) note(mayHaveRun bool) {
	if mayHaveRun {
		c.link.mayHaveRun.Store(true)
	}
}

// next is the request of the next try. Its context ends with the caller's own, as
// an answer's body is read long after the Throttle is done.
func (c *call) next() (*http.Request, error) {
	c.tap = new(tap)
	req := c.req.Clone(follow(c.req.Context(), c.link, c.tap))
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

// broken classifies a try without an answer.
func (c *call) broken() throttle.Result {
	var cert *tls.CertificateVerificationError
	var below *throttle.Error
	var refused *store.Error
	if c.req.Context().Err() != nil || errors.As(c.err, &cert) || errors.As(c.err, &below) || errors.As(c.err, &refused) {
		return throttle.Result{Err: c.err} // says nothing about load, and no retry helps
	}
	return c.say(pace.Report{Verdict: pace.Failed}, c.err, c.rewinds && c.repeats)
}

// judge classifies a try by its answer.
func (c *call) judge(now time.Time) throttle.Result {
	a := c.answer
	body := c.look()
	r := c.dialect.Read(a.StatusCode, fields(a.Header), body, now)
	report := r.Report()
	c.note(ran(a.StatusCode, r, report.Verdict))
	again := c.rewinds && !r.Permanent
	switch {
	case report.Verdict == pace.Throttled && a.StatusCode == http.StatusServiceUnavailable:
		again = again && (c.repeats || r.After.OK)
	case report.Verdict == pace.Throttled: // and so it was not executed
	case a.StatusCode == http.StatusBadGateway || a.StatusCode == http.StatusGatewayTimeout || r.Retryable:
		report.Verdict = pace.Failed
		again = again && c.repeats
	default: // also 500, which as a rule is the same the next time
		report.Verdict, report.After, report.Final = pace.Served, 0, false
		own, scopes := c.heard(r, report)
		return throttle.Result{Report: own, Scopes: scopes}
	}
	e := &StatusError{Code: a.StatusCode, Header: a.Header, Said: r}
	if again {
		if body == nil {
			body = hold(a, maxHeld)
		}
		e.Body = bytes.Clone(body[:min(len(body), maxSnippet)])
	}
	own, scopes := c.heard(r, report)
	result := c.say(own, e, again)
	result.Scopes = scopes
	return result
}

// look reads the beginning of a body in which the dialect looks for a refusal:
// that of an error or of an answer to GraphQL, and any other if there is leave.
func (c *call) look() (head []byte) {
	wants := c.dialect.WantsBody(c.answer.StatusCode)
	switch {
	case wants && (c.bodies || c.isGraphQL()):
		return hold(c.answer, signal.MaxBody)
	case wants && c.answer.StatusCode >= 400:
		return hold(c.answer, maxHeld)
	}
	return nil
}

// isGraphQL reports whether the path is that of GraphQL, which tells of errors
// with status 200, and the answer is no stream.
func (c *call) isGraphQL() bool {
	if c.req.URL == nil || !strings.HasSuffix(strings.TrimSuffix(c.req.URL.Path, ".json"), "/graphql") {
		return false
	}
	kind := c.answer.Header.Get("Content-Type")
	return !strings.HasPrefix(kind, "text/event-stream") && !strings.HasPrefix(kind, "multipart/")
}

// say is the Result of a try that was not served.
func (c *call) say(r pace.Report, err error, again bool) throttle.Result {
	r.Final, c.final = !again, !again
	return throttle.Result{Report: r, Err: err}
}

// end makes of what the Throttle returned what RoundTrip returns.
func (c *call) end(err error) (*http.Response, error) {
	if !c.sent && c.req.Body != nil {
		c.req.Body.Close()
	}
	switch {
	case err == nil, c.final && c.answer != nil:
		return c.answer, nil
	case c.answer == nil:
		return nil, c.failed(err)
	}
	var gaveUp *throttle.Error
	if !errors.As(err, &gaveUp) || gaveUp.Reason == throttle.ErrTries {
		return c.answer, nil
	}
	c.discard()
	return nil, c.failed(err)
}

// failed completes an error by whether the request may have been executed,
// which is known better here than by the Throttle.
func (c *call) failed(err error) error {
	var e *throttle.Error
	if c.nested && c.err != nil {
		return c.err // for the Transport above to judge
	}
	if !errors.As(err, &e) {
		e = &throttle.Error{Reason: throttle.ErrTries, Err: err, Tries: c.tries}
		if cause := context.Cause(c.req.Context()); cause != nil {
			e.Reason = cause
		}
		err = e
	}
	e.MayHaveRun = c.link.mayHaveRun.Load()
	return err
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
// answer is as good as before. The first bytes, most of them at most, are
// returned, not to be changed.
func hold(a *http.Response, most int) (head []byte) {
	held, err := io.ReadAll(io.LimitReader(a.Body, int64(most)+1))
	rest := a.Body
	switch {
	case err != nil:
		rest.Close()
		a.Body = io.NopCloser(io.MultiReader(bytes.NewReader(held), failing{err}))
	case len(held) <= most:
		rest.Close()
		a.Body = io.NopCloser(bytes.NewReader(held))
	default:
		a.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(held), rest), rest}
	}
	return held[:min(len(held), most)]
}

// failing is a reader of nothing but an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
