package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// parseFlags parses flags that may stand before, between and after names, and
// returns the names. What follows -- is names.
func parseFlags(flags *flag.FlagSet, args []string) (names []string, err error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, usageErrorf("%s: %v; run 'throttle %s -h'", flags.Name(), err, flags.Name())
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

// usageError is wrong usage or input: exit code 2.
type usageError string

// usageErrorf makes a usageError.
func usageErrorf(format string, a ...any) error { return usageError(fmt.Sprintf(format, a...)) }

func (e usageError) Error() string { return string(e) }
