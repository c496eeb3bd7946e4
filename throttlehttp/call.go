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

// call is one request on its way through a Transport, in one goroutine.
type call struct {
	base    http.RoundTripper
	req     *http.Request
	rewinds bool   // there is a body for a second try
	repeats bool   // it may be executed twice
	maxBody int64  // of a body that is kept to be sent again
	kept    []byte // that body; nil: none
	dialect *signal.Dialect
	bodies  bool // the beginning of bodies is looked at too
	splits  *splits
	name    string          // of the Throttle
	needs   []throttle.Need // all scopes that it is known to be subject to
	told    bool            // whether this server has ever named a scope
	route   string          // computed on first use, as is user
	user    string
	warn    func(req *http.Request, sent int) // called for layers underneath that retry

	sent   bool // Base was given the body of req, and closes it
	tries  int
	link   *link          // to what is known of all tries
	nested bool           // in a Transport, which retries it
	tap    *tap           // of the last try, as is what follows
	answer *http.Response // of the last try
	final  bool           // no other try may follow
	ended  bool           // what RoundTrip returns is settled
	err    error          // of the last try, when there is no answer
}

// errNothing is of a try about which Base has said nothing, so that it may have
// been executed.
var errNothing = errors.New("throttlehttp: Base returned neither an answer nor an error")

// try sends the request once.
func (c *call) try(context.Context) throttle.Result {
	c.discard()
	req, err := c.next()
	if err != nil {
		return throttle.Result{Err: err}
	}
	c.tries++
	c.answer, c.err = c.base.RoundTrip(req)
	if c.answer == nil && c.err == nil {
		c.err = errNothing
	}
	if n := c.tap.layers(); n > 0 && c.warn != nil {
		c.warn(c.req, n)
	}
	if c.err != nil {
		c.answer = nil
		if c.unsendable() {
			return throttle.Result{Err: c.err} // nor is it the next time
		}
		c.note(c.tap.broke(c.req.Context(), c.err))
		return c.broken()
	}
	if c.answer.Body == nil { // a careless Base
		c.answer.Body = http.NoBody
	}
	if c.answer.Request == nil {
		c.answer.Request = req
	}
	c.adopt()
	return c.judge(time.Now())
}

// note records that a try may have been executed.
func (c *call) note(mayHaveRun bool) {
	if mayHaveRun {
		c.link.mayHaveRun.Store(true)
	}
}

// next returns the request of the next try. Its context ends with the caller's
// own, as the body of the answer is read long after the Throttle is done.
func (c *call) next() (*http.Request, error) {
	c.tap = new(tap)
	req := c.req.Clone(follow(c.req.Context(), c.link, c.tap))
	req.Trailer = c.req.Trailer // no copy: its values are set while the body is read
	body, err := c.bodyOf(req)
	req.Body, c.sent = body, true
	return req, err
}

// bodyOf returns the body of the next try.
func (c *call) bodyOf(req *http.Request) (io.ReadCloser, error) {
	switch {
	case c.req.Body == nil || c.req.Body == http.NoBody:
		return req.Body, nil // GetBody may be that of a request which this one was cloned from
	case c.kept != nil:
		return io.NopCloser(bytes.NewReader(c.kept)), nil
	case c.sent && c.req.GetBody != nil:
		return c.req.GetBody()
	case c.sent || c.rewinds || c.nested || c.maxBody <= 0 || req.ContentLength > c.maxBody:
		return req.Body, nil
	}
	body, whole, err := keep(req.Context(), req.Body, c.maxBody)
	if whole != nil {
		c.kept, c.rewinds = whole, true
	}
	return body, err
}

// broken classifies a try without an answer.
func (c *call) broken() throttle.Result {
	var cert *tls.CertificateVerificationError
	var below *throttle.Error
	var refused *store.Error
	if c.req.Context().Err() != nil || c.err == errNothing || errors.As(c.err, &cert) || errors.As(c.err, &below) || errors.As(c.err, &refused) {
		return throttle.Result{Err: c.err} // says nothing about load, and no retry helps
	}
	return c.say(pace.Report{Verdict: pace.Failed}, c.err, c.rewinds && c.repeats)
}

// judge classifies a try by its answer.
func (c *call) judge(now time.Time) throttle.Result {
	a := c.answer
	body, seen := c.look()
	r := c.dialect.Read(a.StatusCode, fields(a.Header), body, now)
	report := r.Report()
	c.note(ran(a.StatusCode, r, report.Verdict) || c.tap.ranBefore())
	again := c.rewinds && !r.Permanent
	switch {
	case a.StatusCode == http.StatusServiceUnavailable && report.Verdict != pace.Served: // failed where a code says so
		again = again && (c.repeats || r.Asked)
	case report.Verdict == pace.Throttled: // and so it was not executed
	case a.StatusCode == http.StatusBadGateway || a.StatusCode == http.StatusGatewayTimeout || r.Retryable:
		report.Verdict = pace.Failed
		again = again && c.repeats
	default: // also 500, which as a rule is the same the next time
		report.Verdict, report.After, report.Final = returned(report.Verdict), 0, false
		own, scopes := c.heard(r, report)
		return throttle.Result{Report: own, Scopes: scopes}
	}
	e := &StatusError{Code: a.StatusCode, Header: a.Header, Reading: r}
	if again {
		if !seen {
			body = hold(c.req.Context(), a, maxHeld)
		}
		e.Body = bytes.Clone(body[:min(len(body), maxSnippet)])
	}
	own, scopes := c.heard(r, report)
	c.splits.close(now, scopes)
	result := c.say(own, e, again)
	result.Scopes = scopes
	return result
}

// returned is the verdict of an answer that is returned as it came, by that of its
// dialect. One of 500 and above teaches nothing: in an outage such answers come between
// plain 503s, and were they served, each of these would be a limit that was reached.
func returned(v pace.Verdict) pace.Verdict {
	if v == pace.Failed {
		return pace.Ignored
	}
	return pace.Served
}

// refuses reports whether the answer will most likely be replaced by another
// try, so that its body is read in any case.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// look reads the beginning of a body in which a refusal may stand: that of an
// error, or of an answer to GraphQL, where the dialect looks for it; of a problem
// document; and of any other if the Transport may. seen is whether it was read.
func (c *call) look() (head []byte, seen bool) {
	a, wants := c.answer, c.dialect.WantsBody(c.answer.StatusCode)
	switch {
	case wants && (c.bodies || c.isGraphQL()):
		return hold(c.req.Context(), a, signal.MaxBody), true
	case wants && a.StatusCode >= 400, refuses(a.StatusCode) && isProblem(a.Header):
		return hold(c.req.Context(), a, maxHeld), true
	}
	return nil, false
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

// say returns the Result of a try that was not served.
func (c *call) say(r pace.Report, err error, again bool) throttle.Result {
	r.Final, c.final = !again, !again
	return throttle.Result{Report: r, Err: err}
}

// end turns what the Throttle returned into what RoundTrip returns.
func (c *call) end(err error) (*http.Response, error) {
	c.ended = true
	switch {
	case err == nil, c.final && c.answer != nil:
		return c.answer, nil
	case c.answer == nil:
		return nil, c.failed(err)
	}
	var gaveUp *throttle.Error
	if !errors.As(err, &gaveUp) || gaveUp.Reason == throttle.ErrTries || gaveUp.Reason == throttle.ErrTooLarge {
		return c.answer, nil
	}
	c.discard()
	return nil, c.failed(err)
}

// close closes the body of a request that Base was not given, and that of an answer which
// is not returned.
func (c *call) close() {
	if !c.sent && c.req.Body != nil {
		c.req.Body.Close()
	}
	if !c.ended {
		c.discard()
	}
}

// failed completes an error by whether the request may have been executed,
// which is known better here than by the Throttle.
func (c *call) failed(err error) error {
	if c.nested && c.err != nil {
		return c.err // for the Transport above to judge
	}
	e := below(c.req.Context(), err)
	if e == nil {
		e = &throttle.Error{Reason: throttle.ErrTries, Err: err, Tries: c.tries}
		if ctx := c.req.Context(); ctx.Err() != nil {
			e.Reason = context.Cause(ctx)
			if !errors.Is(e, ctx.Err()) { // net/http returns the Cause alone
				e.Err = errors.Join(err, ctx.Err())
			}
		}
		err = e
	}
	e.MayHaveRun = c.link.mayHaveRun.Load()
	return err
}

// discard closes the last answer, so that its connection can be reused.
func (c *call) discard() {
	if c.answer == nil {
		return
	}
	drop(c.req.Context(), c.answer.Body)
	c.answer = nil
}
