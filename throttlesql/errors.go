package throttlesql

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

var (
	errNoQuery  = errors.New("throttlesql: the Store has no Query: set it to the QueryRow of the client, see Query")
	errDisagree = &Error{Charged: true, Err: errors.New("the functions of the schema decide differently from this program: does Query run each statement once, as it is?")}
	errReply    = &Error{Charged: true, Err: errors.New("the answer of PostgreSQL is not one of throttle_take: is Query the client's own function?")}
	errTries    = &Error{Err: fmt.Errorf("the limit of a key changed %d times meanwhile: do all processes have the same limits?", maxTries)}
)

// Error says why PostgreSQL could not decide.
type Error struct {
	// Charged reports whether the Take may have been charged all the same: the
	// statement was sent, and no answer came.
	Charged bool
	// Err is the error of the client, or of the context.
	Err error
}

// Error returns the error in one line.
func (e *Error) Error() string {
	text := oneLine{e.Err}.Error()
	if e.Charged {
		return "throttlesql: not known whether it was charged: " + text
	}
	return "throttlesql: nothing was charged: " + text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// oneLine is an error of a client in one line: pgx writes one for each address.
type oneLine struct{ error }

func (e oneLine) Error() string {
	return strings.Join(strings.FieldsFunc(e.error.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}

func (e oneLine) Unwrap() error { return e.error }

// stateOf returns the SQLSTATE of an error of PostgreSQL, as pgx and lib/pq tell
// it, or nothing.
func stateOf(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// advice is what to do about an error of PostgreSQL, by its SQLSTATE.
var advice = map[string]string{
	"42P01": "call Create, or run what Schema gives; if it is there, GRANT USAGE ON SCHEMA of it", // no such table
	"42883": "call Create, or run what Schema gives: it is not there, or of another version",      // function
	"3F000": "make the schema of the Table first: CREATE SCHEMA",                                  // schema
	"42703": "the table has another layout: Check says how it differs",                            // column
	"42P10": "the table has another layout: Check says how it differs",                            // unique index
	"42804": "the table has another layout: Check says how it differs",                            // type
	"26000": poolers,                                                                              // no such prepared statement
	"42P05": poolers,                                                                              // there is one already
	"42501": "Check says what to GRANT",
	"25006": "the server takes no writes: connect to a primary, with default_transaction_read_only off",
	"0A000": "if this server is a standby, connect to its primary",
	"40001": "the isolation level must be read committed",
}

// poolers is about a pooler that gives each statement another session, in which the
// client prepared nothing.
const poolers = "behind a pooler of transactions let pgx use default_query_exec_mode=cache_describe, and lib/pq binary_parameters=yes"

// failed returns an error of the client as an Error. A statement that PostgreSQL
// itself refuses has charged nothing, unless the connection ended with it.
func failed(err error) error {
	code := stateOf(err)
	charged := code == "" || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P")
	charged = charged && !unsent(err)
	if what := advice[code]; what != "" {
		err = fmt.Errorf("%w: %s", err, what)
	}
	return &Error{Charged: charged, Err: err}
}

// unsent reports whether an error says that nothing was sent: there was no
// connection, or the client says so.
func unsent(err error) bool {
	var dial *net.OpError
	var safe interface{ SafeToRetry() bool } // of pgx
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.As(err, &safe) && safe.SafeToRetry() ||
		stateOf(err) == "57P03" || // it takes no connections yet
		says(err, func(text string) bool {
			return strings.HasPrefix(text, "failed to connect to ") || strings.HasPrefix(text, "tls: failed to verify certificate") ||
				strings.HasPrefix(text, "pq: wrong value for ") || notSent[text]
		})
}

// notSent are errors of pools and drivers that have nothing but a text to be known
// by, or a type of a package that this one does not import. "driver: bad connection"
// is none of them: lib/pq also returns it where the answer was lost.
var notSent = map[string]bool{
	"closed pool":                                                true, // of pgxpool
	"pq: SSL is not enabled on the server":                       true, // of lib/pq
	"sql: database is closed":                                    true,
	"sql: connection is already closed":                          true,
	"sql: transaction has already been committed or rolled back": true,
}

// says reports whether an error or one that it wraps has such a text.
func says(err error, such func(text string) bool) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if such(err.Error()) {
			return true
		}
	}
	return false
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
	return says(err, func(text string) bool { return strings.HasSuffix(text, "no rows in result set") })
}
