package throttleredis

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

var (
	// ErrFull says that Redis has no memory left and refuses writes. Nothing was
	// charged.
	ErrFull = errors.New("no memory is left in Redis: raise maxmemory, or keep fewer keys")
	// ErrEvicts is returned by Check for a Redis that may evict states.
	ErrEvicts = errors.New("it evicts keys when memory is full, and a limit whose key is evicted starts unused: set maxmemory-policy noeviction")
	// ErrVersion says that Redis is older than 7.0. Nothing was charged.
	ErrVersion = errors.New("it does not know scripts that begin with #!lua: use Redis 7.0, Valkey 7.2 or later")
)

// errNoDo is for a Store or Document without a client.
var errNoDo = errors.New("there is no Do: set it to a function that sends commands by the client, see Do")

// Error says why Redis could not decide.
type Error struct {
	// Charged reports whether the Take may have been charged all the same: it
	// was sent, and no answer came.
	Charged bool
	// Err is the error of the client, or of the context.
	Err error
}

// Error returns the error in one line.
func (e *Error) Error() string {
	if e.Charged {
		return "throttleredis: not known whether it was charged: " + e.text()
	}
	return "throttleredis: nothing was charged: " + e.text()
}

// text returns the text of Err in one line.
func (e *Error) text() string { return strings.ReplaceAll(e.Err.Error(), "\n", "; ") }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// refusals are the first words of the errors by which Redis says that it has not
// run a script.
var refusals = []string{
	"NOSCRIPT", "OOM", "MISCONF", "READONLY", "NOREPLICAS", "MASTERDOWN", "LOADING", "BUSY", "CLUSTERDOWN",
	"CROSSSLOT", "MOVED", "ASK", "TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM", "NOFENCE",
	"NOCOMMAND", "ERR unknown command", "ERR max number of clients", "ERR Error compiling script",
	// What a client gets that asks before a script: for a database, a user, the slots.
	"ERR DB index", "ERR SELECT", "ERR AUTH", "ERR Client sent AUTH", "ERR This instance has cluster support",
}

// unsent are parts of the errors of clients that had no connection to send
// anything on, where they keep no error of type net.OpError.
var unsent = []string{
	"dial tcp", "dial unix", "failed to connect", "connection pool timeout", "connection pool exhausted",
	"all sentinels specified in configuration are unreachable", "tls: failed to verify certificate",
	"tls: first record does not look like a TLS handshake", // what answers is no TLS
	// A server that does not accept the certificate of the client, or has none, reads
	// nothing of what was sent behind it.
	"remote error: tls: certificate required", "remote error: tls: bad certificate",
	"remote error: tls: expired certificate", "remote error: tls: revoked certificate",
	"remote error: tls: unsupported certificate", "remote error: tls: unknown certificate",
	"remote error: tls: handshake failure", "remote error: tls: protocol version not supported",
}

// failed returns an error of the client as an Error.
func failed(err error) error {
	var dial *net.OpError
	text := err.Error()
	if errors.Is(err, errNoDo) || errors.As(err, &dial) && dial.Op == "dial" || slices.ContainsFunc(unsent, func(part string) bool { return strings.Contains(text, part) }) {
		return &Error{Err: err}
	}
	for _, word := range refusals {
		if !says(err, word) {
			continue
		}
		switch word {
		case "OOM":
			err = fmt.Errorf("%w (%w)", ErrFull, err)
		case "ERR Error compiling script": // it stumbles over #!lua
			err = fmt.Errorf("a Redis that is too old: %w (%w)", ErrVersion, err)
		}
		return &Error{Err: err}
	}
	return &Error{Charged: true, Err: err}
}

// denied reports whether Redis says that its user may not do something.
func denied(err error) bool {
	text := err.Error()
	return says(err, "NOPERM") || strings.Contains(text, "ACL failure") ||
		strings.Contains(text, "can't run this command") || strings.Contains(text, "can't access at least one")
}

// unknown reports whether Redis says that it does not know a command, as where it
// was renamed.
func unknown(err error) bool {
	text := err.Error()
	return strings.Contains(text, "ERR unknown command") || strings.Contains(text, "Unknown Redis command") ||
		strings.Contains(text, "Unknown command")
}

// says reports whether an error of Redis begins with a word. A client may have
// put text before it.
func says(err error, word string) bool {
	text := err.Error()
	return strings.HasPrefix(text, word) || strings.Contains(text, ": "+word+" ")
}
