package main

import (
	"errors"
	"fmt"
	"io"
)

// exit says what went wrong, in one line, and returns the exit code: 0 done, 1
// failed, 2 wrong usage or input, 3 an assertion that does not hold, 4 what was
// asked for is denied.
func exit(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(denied)): // it has been said
		return 4
	}
	fmt.Fprintf(stderr, "throttle: %s\n", oneLine(err.Error()))
	switch {
	case errors.As(err, new(usageError)):
		return 2
	case errors.As(err, new(assertion)):
		return 3
	}
	return 1
}

// failure is work that was begun and not done: exit code 1.
type failure string

// failuref makes a failure.
func failuref(format string, a ...any) error { return failure(fmt.Sprintf(format, a...)) }

func (e failure) Error() string { return string(e) }

// assertion is an -assert that does not hold: exit code 3.
type assertion string

func (e assertion) Error() string { return string(e) }

// denied is that nothing passed, which has been said already: exit code 4.
type denied struct{}

func (denied) Error() string { return "denied" }
