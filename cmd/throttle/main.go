// Command throttle shows what policies of calling a rate limited service are
// worth: in simulation, and against a real server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// command is one verb of the program.
type command struct {
	name, about string
	run         func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error
}

// commands are all verbs but help.
var commands = []command{
	{"sim", "simulate policies in virtual time and compare them", simulate},
	{"tune", "search the settings of a policy for a scenario", tune},
	{"demo", "show policies live, against an API on this machine", demonstrate},
	{"explain", "say what an HTTP response means for its caller", explain},
	{"take", "ask whether something may pass a limit, or measure a store", take},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt kills
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(exit(err, os.Stderr))
}

// run is the program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{"no command; run 'throttle help'"}
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(rest) == 0 {
			return help(stdout)
		}
		name, rest = rest[0], []string{"-h"}
	}
	for _, c := range commands {
		if c.name == name {
			return c.run(ctx, rest, stdin, stdout, stderr)
		}
	}
	if strings.HasPrefix(name, "-") {
		return flagFirst(name, rest)
	}
	return usageError{fmt.Sprintf("command %s is not known; run 'throttle help'", quote(name))}
}

// flagFirst refuses a flag before the command.
func flagFirst(name string, rest []string) error {
	verb := "COMMAND"
	for _, c := range slices.Backward(commands) {
		if slices.Contains(rest, c.name) {
			verb = c.name
		}
	}
	name, _, _ = strings.Cut(name, "=")
	return usageError{fmt.Sprintf("flag %s before the command; write 'throttle %s %s ...'", quote(name), verb, quote(name))}
}

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

func help(w io.Writer) error {
	var b strings.Builder
	b.WriteString("throttle compares ways of calling a rate limited service, and limits rates.\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-7s %s\n", c.name, c.about)
	}
	b.WriteString("  help    show this, or 'help COMMAND' the help of a command\n")
	b.WriteString(`
Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 an -assert that does
not hold, 4 what 'take' asks for is denied.

Examples:
  throttle sim
  throttle sim -policy backoff,adaptive emr-shared
  throttle take 3/h backup && backup
  throttle help sim
`)
	_, err := io.WriteString(w, b.String())
	return err
}

// parseFlags parses flags that may stand before, between and after names, and
// returns the names. What follows -- is names.
func parseFlags(flags *flag.FlagSet, args []string) (names []string, err error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, usageError{fmt.Sprintf("%s: %v; run 'throttle %s -h'", flags.Name(), err, flags.Name())}
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

// oneLine is text without line breaks and other control characters.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
