package throttlesql

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

var (
	errNoQuery  = errors.New("throttlesql: the Store has no Query: set it to the QueryRow of the client, see Query")
	errDisagree = &Error{Charged: true, Err: errors.New("the functions of the schema decide otherwise than this program: does Query run each statement once, as it is?")}
	errReply    = &Error{Charged: true, Err: errors.New("what PostgreSQL answered is not what throttle_take answers: is Query the client's own function?")}
	errTries    = &Error{Err: fmt.Errorf("the limit of a key changed %d times meanwhile: do all processes have the same limits?", maxTries)}
)

// Error says why PostgreSQL could not decide.
type Error struct {
	// Charged says that the Take may have been charged all the same: the
	// statement was sent, and no answer came.
	Charged bool
	// Err is the error of the client, or of the context.
	Err error
}

// Error returns one line.
func (e *Error) Error() string {
	if e.Charged {
		return "throttlesql: not known whether it was charged: " + e.Err.Error()
	}
	return "throttlesql: nothing was charged: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// failed returns an error of the client as an Error. A statement that PostgreSQL
// itself refuses has charged nothing, unless the connection ended with it.
func failed(err error) error {
	if unsent(err) {
		return &Error{Err: err}
	}
	var state interface{ SQLState() string } // of pgx and of lib/pq
	if !errors.As(err, &state) {
		return &Error{Charged: true, Err: err}
	}
	code := state.SQLState()
	switch code {
	case "42P01", "42883", "3F000": // no such table, function, schema
		err = fmt.Errorf("%w: call Create, or run what Schema gives", err)
	}
	return &Error{Charged: strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P"), Err: err}
}

// unsent reports whether an error says that nothing was sent: there was no
// connection, or the client says so.
func unsent(err error) bool {
	var dial *net.OpError
	var safe interface{ SafeToRetry() bool } // of pgx
	var state interface{ SQLState() string }
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.As(err, &safe) && safe.SafeToRetry() ||
		errors.As(err, &state) && state.SQLState() == "57P03" // it takes no connections yet
}

// failedCharge returns the error of a statement that charges, or nil if it
// returned no row: then it does not decide.
func failedCharge(err error) error {
	if isNoRows(err) {
		return nil
	}
	return failed(err)
}

// failedLook returns the error of a statement that writes nothing.
func failedLook(err error) error {
	return &Error{Err: failed(err).(*Error).Err}
}

// isNoRows recognises the sql.ErrNoRows of any driver. Some have one of their
// own, with the same words.
func isNoRows(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasSuffix(err.Error(), "no rows in result set") {
			return true
		}
	}
	return false
}
