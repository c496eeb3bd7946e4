package store

import (
	"errors"
	"testing"
)

var errBoom = errors.New("boom")

// refusedFor checks that err is an Error of the reason, and returns it.
func refusedFor(t *testing.T, err, reason error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error %v, want an *Error of the Reason %v", err, reason)
	}
	return e
}
