package throttlegrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle"
)

// giveUp is a *throttle.Error that is also a status.
type giveUp struct{ err *throttle.Error }

// Error returns the text of the throttle.Error and the quotas that the server
// reported as used up.
func (e *giveUp) Error() string {
	text := e.err.Error()
	if e.err.Err == nil {
		return text
	}
	named := 0
	for _, d := range status.Convert(e.err.Err).Details() {
		quota, _ := d.(*errdetails.QuotaFailure)
		for _, v := range quota.GetViolations() {
			if named++; named > 3 {
				return text
			}
			text += fmt.Sprintf("; quota %.100q: %.200q", v.GetSubject(), v.GetDescription())
		}
	}
	return text
}

func (e *giveUp) Unwrap() error { return e.err }

// GRPCStatus returns the last status of the server unchanged, or if there is
// none the code for why.
func (e *giveUp) GRPCStatus() *status.Status {
	if e.err.Err != nil {
		return status.Convert(e.err.Err)
	}
	code := codes.ResourceExhausted
	switch {
	case errors.Is(e.err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(e.err, context.Canceled):
		code = codes.Canceled
	}
	return status.New(code, e.Error())
}

// fault is what a method of a stream panics with when code of the user, such as
// an interceptor or OnEvent, panicked in the goroutine that opens the stream.
type fault struct {
	value any
	stack []byte // of that goroutine
}

// faultOf returns the fault for what recover returned; nil for nil. The function
// that recovers calls it.
func faultOf(p any) *fault {
	if p == nil {
		return nil
	}
	return &fault{p, debug.Stack()}
}

// Error returns the value and where it happened.
func (f *fault) Error() string {
	return fmt.Sprintf("throttlegrpc: the opening of a stream panicked: %v\n\n%s", f.value, f.stack)
}

// Unwrap returns the value, if it is an error.
func (f *fault) Unwrap() error {
	err, _ := f.value.(error)
	return err
}
