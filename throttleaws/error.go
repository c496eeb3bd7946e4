package throttleaws

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/throttle-go/throttle"
)

// Error says why a call was not served. The typed error of the service, such as
// a *types.ProvisionedThroughputExceededException, and the [*throttle.Error] of
// a call that was given up are found in it by [errors.As], as is the Error in
// the *smithy.OperationError that the client returns.
type Error struct {
	// Name is the name of the Throttle that the call shares, see [Gates.Name].
	Name string
	// Tries is how often the call was sent; zero if it never was.
	Tries int
	// MayHaveRun reports whether the service may have executed the call in any
	// try. If false, it certainly has not: every try was throttled, was answered
	// with a client error, or never left.
	MayHaveRun bool
	// Reasons are the ThrottlingReasons of DynamoDB, if it gave any.
	Reasons []Reason
	// Err is a *throttle.Error if the call was given up, else the error of the
	// last try.
	Err error
}

// Reason says what was throttled and why.
type Reason struct {
	// Reason is Table or Index, Read or Write, and the limit that was exceeded:
	// "TableWriteProvisionedThroughputExceeded". KeyRangeThroughputExceeded is
	// one hot key: a name for each key, see [Gates.Name], slows only that one.
	Reason string
	// Resource is the ARN of the table or index, empty if unknown.
	Resource string
}

// Error returns the text of Err, the Reasons and whether the call may have been
// executed, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", e.Err)
	for _, r := range e.Reasons {
		fmt.Fprintf(&b, "; %s", r.Reason)
		if r.Resource != "" {
			fmt.Fprintf(&b, " of %s", r.Resource)
		}
	}
	_, said := e.Err.(*throttle.Error) // it says itself whether it was executed
	switch {
	case said:
	case e.MayHaveRun:
		b.WriteString("; may have been executed")
	default:
		b.WriteString("; not executed")
	}
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxReasons bounds the reasons read from an answer.
const maxReasons = 10

// reasons returns the ThrottlingReasons in err.
func reasons(err error) (all []Reason) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return nil
	}
	list := field(api, "ThrottlingReasons")
	if list.Kind() != reflect.Slice {
		return nil
	}
	for i := range min(list.Len(), maxReasons) {
		r := list.Index(i).Interface()
		all = append(all, Reason{text(field(r, "Reason")), text(field(r, "Resource"))})
	}
	return all
}
