// Package exit holds the errors that end a command, and the exit codes that
// they stand for.
package exit

import (
	"errors"
	"fmt"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Code writes what went wrong, in one line, and returns the exit code: 0 done, 1
// failed, 2 wrong usage or input, 3 an assertion that does not hold, 4 what was
// asked for is denied, or that of a Status.
func Code(err error, stderr io.Writer) int {
	var status Status
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(Denied)): // it has been said
		return 4
	case errors.As(err, &status) && status.Text == "":
		return status.Code
	}
	fmt.Fprintf(stderr, "throttle: %s\n", words.OneLine(err.Error()))
	switch {
	case errors.As(err, new(usage.Error)):
		return 2
	case errors.As(err, new(Assertion)):
		return 3
	case errors.As(err, &status):
		return status.Code
	}
	return 1
}

// A Failure is work that was begun and not done: exit code 1.
type Failure string

// Failf returns a Failure.
func Failf(format string, a ...any) error { return Failure(fmt.Sprintf(format, a...)) }

func (e Failure) Error() string { return string(e) }

// An Assertion is an -assert that does not hold: exit code 3.
type Assertion string

func (e Assertion) Error() string { return string(e) }

// Denied ends a command that was denied what it asked for, and has said so:
// exit code 4.
type Denied struct{}

func (Denied) Error() string { return "denied" }

// A Status ends a command with the exit code of a program that it ran.
type Status struct {
	// Code is the exit code.
	Code int
	// Text says what went wrong. If empty, the program has said it.
	Text string
}

func (s Status) Error() string { return s.Text }
