// Package usage parses the flags of commands, and holds the error of wrong usage.
package usage

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// ParseFlags parses flags that may stand before, between and after names, and
// returns the names. What follows -- is names. The error is flag.ErrHelp or an
// Error.
func ParseFlags(flags *flag.FlagSet, args []string) (names []string, err error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, Errorf("%s: %v; run 'throttle %s -h'", flags.Name(), err, flags.Name())
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return names, nil
		}
		if read := len(args) - len(rest); read > 0 && args[read-1] == "--" {
			return append(names, rest...), nil
		}
		names, args = append(names, rest[0]), rest[1:]
	}
}

// Help writes help if err, from ParseFlags, is that it was asked for, and else
// returns err.
func Help(err error, help string, stdout io.Writer) error {
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(stdout, help)
	}
	return err
}

// An Error is wrong usage or input: exit code 2.
type Error string

// Errorf returns an Error.
func Errorf(format string, a ...any) error { return Error(fmt.Sprintf(format, a...)) }

func (e Error) Error() string { return string(e) }
