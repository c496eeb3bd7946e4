package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Reasons of an [Error], besides [context.DeadlineExceeded] and what
// [context.Cause] gives.
var (
	// ErrTries says that a call was throttled or failed as often as it may.
	ErrTries = errors.New("no tries left")
	// ErrBudget says that too many calls are being made again already, see
	// [Throttle.Budget].
	ErrBudget = errors.New("no budget left for another try")
	// ErrQueueFull says that too many calls were waiting already.
	ErrQueueFull = errors.New("too many calls are waiting")
	// ErrWouldWait says that Try would have had to wait.
	ErrWouldWait = errors.New("not without waiting")
)

// Error is how a Throttle, a [Queue], a [Quota] or a [Shedder] gives up. Both its Reason and the last error of the
// function are found by [errors.Is] and [errors.As].
type Error struct {
	// Reason is ErrTries, ErrBudget, ErrQueueFull or ErrWouldWait, of a Queue or a Quota
	// also [ErrNever] or [ErrUndecided], of a Shedder also [ErrShed]; or
	// context.DeadlineExceeded, when the wait would have ended after the
	// deadline of the context; or the context's Cause, when it ended.
	Reason error
	// Err is what the function returned last, nil if it was never called.
	Err error
	// Tries is how often the function was called.
	Tries int
	// Wait is how long the wait would have been that was refused:
	// [pace.Never] if that was not known, zero if no wait was refused.
	Wait time.Duration
	// Scope is the one that made it wait, see [Terms.Needs]; empty: the limit of
	// the Throttle itself.
	Scope string
	// Why is what made it wait there, if that is known.
	Why pace.Why
	// MayHaveRun is whether the service may have executed the call: a try
	// ended otherwise than throttled. If false, it surely has not, and may be
	// asked elsewhere.
	MayHaveRun bool

	ended error // of the context; its Cause, the Reason, may be another
}

// Error is one line of all of it.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "throttle: %v", e.Reason)
	switch {
	case e.Wait == pace.Never:
		b.WriteString(", would wait for nobody knows how long")
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

// Timeout reports whether it was given up for want of time, as net.Error and
// url.Error want to know.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.Is(e, context.DeadlineExceeded) || errors.As(e.Err, &t) && t.Timeout()
}

// Unwrap gives the Reason and the last error of the function.
func (e *Error) Unwrap() []error {
	all := make([]error, 0, 3)
	for _, err := range [...]error{e.Reason, e.ended, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// Result is an error by which a function says how its call ended. It may be
// wrapped. Made by [Throttled], [Failed], [Permanent] and [Ignore], or by hand
// where there is more to say, such as hints: with Err nil and the Verdict
// [pace.Served] it is a success, of which Do returns nil.
type Result struct {
	Report pace.Report
	// Said is what the answer said of single scopes: limits that only some calls
	// come under, see [Terms.Needs]. Where one of them refused, the Throttle's
	// own limit did not, and is not slowed down. A retry comes under all of them,
	// and after all waits that they ask for. Of scopes that the call did not name
	// 16 are heeded at most, in all its tries.
	Said []Said
	// Err is the real error. If nil, there is none.
	Err error
}

// Error is that of the real error.
func (r *Result) Error() string {
	if r.Err == nil {
		return r.Report.Verdict.String()
	}
	return r.Err.Error()
}

// Unwrap is the real error.
func (r *Result) Unwrap() error { return r.Err }

// Throttled says that the call was refused for load and not executed. It is
// tried again, after the time that the service asked for (zero: it did not) or
// later, until ctx ends or [Throttle.Tries] are used up.
func Throttled(err error, after time.Duration) error {
	return &Result{Report: pace.Report{Verdict: pace.Throttled, After: after}, Err: err}
}

// Failed says that the call failed for a passing reason other than load, and
// may have been executed. It is tried again up to [Throttle.Retries] times: say
// so only of what may be executed twice.
func Failed(err error) error {
	return &Result{Report: pace.Report{Verdict: pace.Failed}, Err: err}
}

// Permanent says that the service has answered, and that asking again would
// not help. Do returns err itself.
func Permanent(err error) error {
	return &Result{Report: pace.Report{Verdict: pace.Served}, Err: err}
}

// Ignore says that the call tells nothing about the service: it was cancelled,
// or never sent. Do returns err itself.
func Ignore(err error) error {
	return &Result{Report: pace.Report{Verdict: pace.Ignored}, Err: err}
}

// Classify is how errors are read unless [Throttle.Classify] says otherwise. A
// [*Result] speaks for itself. Errors of a context, and the [*Error] of a
// Throttle further down, which has tried already, are Ignored. Nil is Served.
//
// Any other error is Served too: it is returned at once and not retried, as
// nobody said that the call may be made twice. A function that is not
// idempotent must not be repeated unasked, and most errors (bad input, no
// permission, quota of the month) would only be repeated as well.
func Classify(err error) pace.Report {
	if err == nil {
		return pace.Report{Verdict: pace.Served}
	}
	if r := resultOf(err); r != nil {
		return r.Report
	}
	var e *Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return pace.Report{Verdict: pace.Ignored}
	}
	return pace.Report{Verdict: pace.Served}
}

// resultOf is the Result in err, nil if there is none, or if it was meant for a
// Throttle further down.
func resultOf(err error) *Result {
	if r, ok := err.(*Result); ok || err == nil {
		return r // the usual cases cost no allocation
	}
	var r *Result
	if !errors.As(err, &r) {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && errors.Is(e, r) {
		return nil
	}
	return r
}

// inner is the error inside a Result; any other error is itself.
func inner(err error) error {
	for {
		r, ok := err.(*Result) // not As: what is wrapped around it shall stay
		if !ok {
			return err
		}
		err = r.Err
	}
}
