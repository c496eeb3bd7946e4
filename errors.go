package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// Reasons of an [Error], besides [context.DeadlineExceeded] and the
// [context.Cause] of a context that ended.
var (
	// ErrTries says that every try that a call has was throttled or failed.
	ErrTries = errors.New("no tries left")
	// ErrBudget says that too many calls are being retried already, see
	// [Throttle.Budget].
	ErrBudget = errors.New("no budget left for another try")
	// ErrQueueFull says that too many calls were waiting already, see
	// [Throttle.MaxWaiting].
	ErrQueueFull = errors.New("too many calls are waiting")
	// ErrTooLate says that a call would not be answered before the deadline of
	// its context: calls with more time left started in its place, or the
	// forecast wait would leave too little time. Such an [Error] is a
	// context.DeadlineExceeded too.
	ErrTooLate = errors.New("would not be answered before its deadline")
	// ErrTooLarge says that a call was refused that costs more than the limit ever
	// allows, so that a retry would be refused too.
	ErrTooLarge = errors.New("costs more than the limit ever allows")
	// ErrWouldWait says that Try would have had to wait.
	ErrWouldWait = errors.New("not without waiting")
)

// Error says why a Throttle gave up a call. Its Reason and the last error of
// the function are found by [errors.Is] and [errors.As].
type Error struct {
	// Reason is ErrTries, ErrBudget, ErrQueueFull, ErrTooLate, ErrTooLarge or
	// ErrWouldWait; or context.DeadlineExceeded, when the wait would have ended after the
	// deadline of the context or after MaxWait; or the Cause of a context that ended.
	Reason error
	// Err is the last error of the function. Nil if it was never called.
	Err error
	// Tries is how often the function was called.
	Tries int
	// Wait is how long the refused wait would have been: [pace.Never] if that
	// is unknown, zero if no wait was refused.
	Wait time.Duration
	// Scope is the scope that the call waited for, see [CallOptions.Needs]. If
	// empty, the Throttle's own limit.
	Scope string
	// Why describes the limit that the call waited for there, if that is known.
	Why pace.Why
	// MayHaveRun reports whether the service may have executed the call: some
	// try ended other than throttled. If false, it certainly has not, and the
	// call may be sent elsewhere.
	MayHaveRun bool

	ended    error         // of the context, or as if of it; the Reason may be another
	patience time.Duration // MaxWait, if that is the Reason
}

// Error returns all fields in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "throttle: %v", e.Reason)
	if e.patience > 0 {
		fmt.Fprintf(&b, " (MaxWait %v)", e.patience)
	}
	switch {
	case e.Wait == pace.Never:
		b.WriteString(", would wait for an unknown time")
	case e.Wait > 0:
		fmt.Fprintf(&b, ", would wait %v", e.Wait)
	}
	if why := because(e.Scope, e.Why); why != "" {
		fmt.Fprintf(&b, " (%s)", why)
	}
	switch {
	case e.Tries == 1:
		b.WriteString(", after 1 try")
	case e.Tries > 1:
		fmt.Fprintf(&b, ", after %d tries", e.Tries)
	}
	switch {
	case e.MayHaveRun:
		b.WriteString(", may have been executed")
	case e.Tries > 0:
		b.WriteString(", not executed")
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// Timeout reports whether time ran out, as net.Error and url.Error expect.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.Is(e, context.DeadlineExceeded) || errors.As(e.Err, &t) && t.Timeout()
}

// Unwrap returns the Reason, the error of the context and Err, those that are
// set.
func (e *Error) Unwrap() []error {
	all := []error{e.Reason, e.ended, e.Err}
	return slices.DeleteFunc(all, func(err error) bool { return err == nil })
}

// verdictError is an error that classifies its try. It may be wrapped.
type verdictError struct {
	report pace.Report
	err    error // the real error; nil: none
}

// Error returns the text of the error inside.
func (e *verdictError) Error() string {
	if e.err == nil {
		return e.report.Verdict.String()
	}
	return e.err.Error()
}

// Unwrap returns the error inside.
func (e *verdictError) Unwrap() error { return e.err }

// Throttled marks err as the error of a try that was refused for load and not
// executed. Do retries it, no earlier than after the delay that the service
// asked for (zero: none), until ctx ends, [Throttle.MaxWait] is over or
// [Throttle.Tries] are used up.
func Throttled(err error, after time.Duration) error {
	return &verdictError{pace.Report{Verdict: pace.Throttled, After: after}, err}
}

// Failed marks err as the error of a try that failed transiently, for a reason
// other than load, and may have been executed. Do retries it after a rest, see
// [Throttle.Backoff], up to [Throttle.Retries] times: use it only for calls that
// may be executed twice.
func Failed(err error) error {
	return &verdictError{pace.Report{Verdict: pace.Failed}, err}
}

// Permanent marks err as the answer of the service, which a retry would not
// change. Do returns err itself.
func Permanent(err error) error {
	return &verdictError{pace.Report{Verdict: pace.Served}, err}
}

// Ignore marks err as the error of a try that teaches nothing about the
// service: it was cancelled, or never sent. Do returns err itself.
func Ignore(err error) error {
	return &verdictError{pace.Report{Verdict: pace.Ignored}, err}
}

// Classify reports how a try ended that returned err, if [Throttle.Classify] is
// nil:
//
//	nil                                     Served
//	Throttled, Failed, Permanent, Ignore    as they say, also when wrapped
//	errors of a context                     Ignored
//	*Error of a Throttle further down       Ignored, as that has retried already
//	*store.Error of an admission            Ignored, as the call was not sent
//	any other error                         Served
//
// Served means that the error is returned at once and not retried: a function
// that is not idempotent must not be repeated without being asked to, and most
// errors (bad input, no permission, quota of the month) would only occur again.
func Classify(err error) pace.Report {
	if err == nil {
		return pace.Report{Verdict: pace.Served}
	}
	if v := verdictOf(err); v != nil {
		return v.report
	}
	var e *Error
	var refused *store.Error
	if errors.As(err, &e) || errors.As(err, &refused) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return pace.Report{Verdict: pace.Ignored}
	}
	return pace.Report{Verdict: pace.Served}
}

// verdictOf returns the verdictError in err; nil if there is none, or if it was
// meant for a Throttle further down.
func verdictOf(err error) *verdictError {
	if v, ok := err.(*verdictError); ok {
		return v // the usual case costs no allocation
	}
	var v *verdictError
	if !errors.As(err, &v) {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && errors.Is(e, v) {
		return nil
	}
	return v
}

// inner returns the error inside a verdictError, and any other error itself.
func inner(err error) error {
	for {
		v, ok := err.(*verdictError) // not As: what is wrapped around it shall stay
		if !ok {
			return err
		}
		err = v.err
	}
}
