package throttleaws

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// call is one call on its way, in one goroutine.
type call struct {
	Call
	attempts *attempts
	in       middleware.FinalizeInput
	next     middleware.FinalizeHandler
	asks     []ask // of the capacity of tables; nil without Gates.Units

	tries      int
	mayHaveRun bool
	out        middleware.FinalizeOutput // of the last try, as are these
	metadata   middleware.Metadata
	err        error
}

// try sends the call once.
func (c *call) try(ctx context.Context) throttle.Result {
	req, _ := c.in.Request.(*smithyhttp.Request)
	if c.tries > 0 && req != nil {
		if err := req.RewindStream(); err != nil {
			c.err = err
			return throttle.Result{Err: err}
		}
	}
	c.tries++
	var w wire
	c.out, c.metadata, c.err = c.attempts.once.HandleFinalize(middleware.WithStackValue(ctx, wireKey{}, &w), c.in, c.next)
	answers := w.answers.Load()
	if answers > 1 {
		c.attempts.gates.warn(c.Call, int(answers))
	}
	r := report(ctx, time.Now(), c.out.Result, c.err)
	if c.err != nil && r.Verdict == pace.Served && !w.sends.Load() {
		r.Verdict = pace.Ignored // there was no answer: it was not sent, as without credentials
	}
	// Of several answers only the last is known.
	c.mayHaveRun = c.mayHaveRun || c.err != nil && (answers > 1 || r.Verdict != pace.Throttled && w.mayHaveRun(c.err))
	rewinds := req == nil || req.GetStream() == nil || req.IsStreamSeekable()
	switch {
	case !rewinds, r.Verdict == pace.Failed && !c.attempts.gates.repeats(c.Call):
		r.Final = true
	case code(c.err) == "LimitExceededException" && c.tries >= quotaTries:
		r.Final = true
	}
	result := throttle.Result{Report: r, Err: c.err}
	switch {
	case r.Verdict == pace.Throttled && inProgress(c.err):
		result.Scopes = []throttle.ScopeResult{{Report: r}} // of one object, which has no pace
	case c.asks != nil:
		result.Scopes = c.bill(r)
	}
	return result
}

// quotaTries bounds the tries of a call that is answered with a code which may
// mean a quota that does not refill: as the SDK does.
const quotaTries = 3

// end turns what the Throttle returned into what the call returns.
func (c *call) end(name string, err error) error {
	if err == nil || c.tries > 0 && c.err == nil {
		return nil // an answer, though a batch may not be all done
	}
	e := &Error{Name: name, Tries: c.tries, MayHaveRun: c.mayHaveRun, Reasons: reasons(c.err), Err: err}
	if gaveUp, ok := err.(*throttle.Error); ok {
		gaveUp.MayHaveRun = c.mayHaveRun // it cannot know as much
	}
	return e
}

// wire is what was seen of one try on the wire.
type wire struct {
	sends        atomic.Bool // it came to the sending: the request was signed
	asked, wrote atomic.Bool // for a connection; the header of the request
	answers      atomic.Int32
}

type wireKey struct{}

// sending lets the wire of a try see what is sent from here on, and not the
// requests for credentials, which are made on the way with the same context.
type sending struct{}

func (sending) ID() string { return sendingID }

func (sending) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	if w, ok := middleware.GetStackValue(ctx, wireKey{}).(*wire); ok {
		ctx = w.trace(ctx)
	}
	return next.HandleDeserialize(ctx, in)
}

func (w *wire) trace(ctx context.Context) context.Context {
	w.sends.Store(true)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { w.asked.Store(true) },
		WroteHeaders:         func() { w.wrote.Store(true) },
		GotFirstResponseByte: func() { w.answers.Add(1) },
	})
}

// mayHaveRun reports whether a try that ended with err may have been executed.
// An HTTP client without hooks counts as having sent it.
func (w *wire) mayHaveRun(err error) bool {
	if !w.sends.Load() {
		return false // whatever err is about, as a request for credentials
	}
	if a := answer(err); a != nil {
		var api smithy.APIError
		return a.StatusCode < 400 || a.StatusCode >= 500 || !errors.As(err, &api)
	}
	var below *throttle.Error
	if errors.As(err, &below) {
		return below.MayHaveRun
	}
	if w.wrote.Load() {
		return true
	}
	var refused *store.Error
	if errors.As(err, &refused) {
		return false
	}
	var send *smithyhttp.RequestSendError
	var cancelled *smithy.CanceledError
	return !w.asked.Load() && (errors.As(err, &send) || errors.As(err, &cancelled))
}
