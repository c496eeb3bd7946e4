package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// ErrUndecided says that no decision was possible because a Store or a database
// failed. The error of the Store is found by errors.Is and errors.As too.
var ErrUndecided = errors.New("could not decide")

// Error says why a request was not admitted: its turn would not come in time,
// there was no room, or a Store could not decide. Its Reason and Err are found
// by [errors.Is] and [errors.As].
type Error struct {
	// Reason is a sentinel error such as [ErrUndecided]; or
	// context.DeadlineExceeded, when the wait would have ended after the
	// deadline; or the Cause of a context that has ended.
	Reason error
	// Wait is how long the refused wait would have been: [limit.Never] if that
	// is unknown, or no wait helps ([ErrNeverFits]); zero if no wait was refused.
	Wait time.Duration
	// Err is the error of the Store or the function that failed. Nil if none
	// did.
	Err error

	ended error // of the context; its Cause, the Reason, may be another
}

// Error returns Reason, Wait and Err in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "not admitted: %v", e.Reason)
	switch {
	case e.Reason == ErrNeverFits:
		b.WriteString(", so no wait helps")
	case e.Wait == limit.Never:
		b.WriteString(", would wait for an unknown time")
	case e.Wait > 0:
		fmt.Fprintf(&b, ", would wait %v", e.Wait)
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

// Ended returns the error for a request whose context has ended. err is the
// error of the Store, nil if it was not asked.
func Ended(ctx context.Context, err error) *Error {
	return &Error{Reason: context.Cause(ctx), Err: err, ended: ctx.Err()}
}

// Undecided returns the error for a request on which a Store failed with err:
// that of [Ended] if ctx has ended, otherwise one with the Reason
// [ErrUndecided].
func Undecided(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return Ended(ctx, err)
	}
	return &Error{Reason: ErrUndecided, Err: err}
}
