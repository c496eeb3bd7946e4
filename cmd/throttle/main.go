// Command throttle limits the callers of a service (gateway, serve, take), paces the
// callers of limited APIs (egress, run), probes and explains the limits of others, replays
// access logs, and simulates rate limiters.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ca"
	"github.com/throttle-go/throttle/cmd/throttle/internal/check"
	"github.com/throttle-go/throttle/cmd/throttle/internal/demo"
	"github.com/throttle-go/throttle/cmd/throttle/internal/egress"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/explain"
	"github.com/throttle-go/throttle/cmd/throttle/internal/find"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/importer"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/replay"
	"github.com/throttle-go/throttle/cmd/throttle/internal/rules"
	"github.com/throttle-go/throttle/cmd/throttle/internal/runner"
	"github.com/throttle-go/throttle/cmd/throttle/internal/schema"
	"github.com/throttle-go/throttle/cmd/throttle/internal/serve"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sim"
	"github.com/throttle-go/throttle/cmd/throttle/internal/take"
	"github.com/throttle-go/throttle/cmd/throttle/internal/top"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tune"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/version"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/near"
)

// command is one verb of the program.
type command struct {
	name, about string
	run         func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error
}

// groups are the headings of help, each with the first command below it.
var groups = map[string]string{
	"gateway": "Commands for owners of a service:",
	"egress":  "Commands for callers of limited APIs:",
	"sim":     "Commands that simulate, and others:",
}

// commands are all verbs but help.
var commands = []command{
	{"gateway", "limit the callers of a service, as a reverse proxy", gateway.Run},
	{"serve", "run a gateway, Envoy's rate limit service or an egress proxy, from files", serve.Run},
	{"check", "check the files of serve, and explain a decision", check.Run},
	{"top", "show live what a running serve decides", top.Run},
	{"rules", "check a file of rules", rules.Run},
	{"schema", "print the JSON schema of the files of serve", schema.Run},
	{"import", "make rules of the configuration of envoyproxy/ratelimit", importer.Run},
	{"replay", "say what rules would have done to the requests of access logs", replay.Run},
	{"take", "ask whether something may pass a limit, or measure a store", take.Run},
	{"egress", "pace and retry the calls of limited APIs, as a proxy for any language", egress.Run},
	{"run", "run a program whose calls of limited APIs are paced and retried", runner.Run},
	{"ca", "make the local authority by which egress paces HTTPS", ca.Run},
	{"explain", "say what an HTTP response means for its caller", explain.Run},
	{"find", "find the load that a service bears, or the limiter that it has", find.Run},
	{"sim", "simulate policies in virtual time and compare them", sim.Run},
	{"tune", "search the settings of a policy for a scenario", tune.Run},
	{"demo", "show policies live, against an API on this machine", demo.Run},
	{"version", "print the version, and the licences of what is linked", version.Run},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	secondKills(ctx, stop)
	infile.Until = ctx
	said := &operate.LogWriter{To: os.Stderr}
	log.SetOutput(&operate.Overheard{To: said})
	err := run(ctx, os.Args[1:], input{os.Stdin}, os.Stdout, os.Stderr)
	if ctx.Err() != nil && errors.As(err, new(usage.Error)) {
		err = exit.Failure(err.Error()) // input that was interrupted is not wrong
	}
	code := exit.Code(err, said)
	said.Flush()
	os.Exit(code)
}

// oneSignal is the time in which signals count as one: timeout(1) sends its own to the
// process and again to the group of the process.
const oneSignal = 200 * time.Millisecond

// secondKills lets a second signal kill, once the first has ended ctx.
func secondKills(ctx context.Context, stop func()) {
	context.AfterFunc(ctx, func() { time.AfterFunc(oneSignal, stop) })
}

// input is a file, read until a signal ends the process.
type input struct{ file *os.File }

func (in input) Read(p []byte) (int, error) { return infile.Read(in.file, p) }

// File is the file, for a program that is to have it.
func (in input) File() *os.File { return in.file }

// Fd is the descriptor, by which a terminal is known.
func (in input) Fd() uintptr { return in.file.Fd() }

// run is the program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usage.Error("no command; run 'throttle help'")
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		switch len(rest) {
		case 0:
			return help(stdout)
		case 1:
		default:
			more := words.Quote(rest[1])
			return usage.Errorf("help: %s is too much; write 'throttle %s %s -h'", more, words.Quote(rest[0]), more)
		}
		name, rest = rest[0], []string{"-h"}
		if name == "help" || isHelp(name) {
			return help(stdout)
		}
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands {
		if c.name == name {
			return named(name, c.run(ctx, rest, stdin, stdout, stderr))
		}
	}
	if strings.HasPrefix(name, "-") {
		return flagFirst(name, rest)
	}
	return unknown(name)
}

// named puts the name of the command before its error, unless that begins with it, or with it
// and a second word, as in sim survey.
func named(command string, err error) error {
	if err == nil || err.Error() == "" {
		return err
	}
	who, _, colon := strings.Cut(err.Error(), ":")
	if first, second, _ := strings.Cut(who, " "); colon && first == command && !strings.Contains(second, " ") {
		return err
	}
	return fmt.Errorf("%s: %w", command, err)
}

// unknown refuses a command, and names the one that was likely meant.
func unknown(name string) error {
	var known []string
	for _, c := range commands {
		known = append(known, c.name)
	}
	if likely := near.Of(name, known); likely != "" {
		return usage.Errorf("command %s is not known; did you mean %s?", words.Quote(name), likely)
	}
	return usage.Errorf("command %s is not known; run 'throttle help'", words.Quote(name))
}

// isHelp reports whether a flag asks for help.
func isHelp(name string) bool { return name == "-h" || name == "-help" || name == "--help" }

// flagFirst refuses a flag before the command.
func flagFirst(name string, rest []string) error {
	verb := "COMMAND"
	for _, c := range slices.Backward(commands) {
		if slices.Contains(rest, c.name) {
			verb = c.name
		}
	}
	name, _, _ = strings.Cut(name, "=")
	return usage.Errorf("flag %s before the command; write 'throttle %s %s ...'", words.Quote(name), verb, words.Quote(name))
}

func help(w io.Writer) error {
	var b strings.Builder
	b.WriteString("throttle limits the callers of a service, paces the callers of limited APIs, and\nsimulates both.\n")
	for _, c := range commands {
		if heading := groups[c.name]; heading != "" {
			b.WriteString("\n" + heading + "\n")
		}
		fmt.Fprintf(&b, "  %-7s %s\n", c.name, c.about)
	}
	b.WriteString("  help    show this, or 'help COMMAND' the help of a command\n")
	b.WriteString(`
Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 an -assert that does
not hold, a knee or limiter that 'find' does not find, or a machine that is too
busy for 'demo', 4 what 'take' or 'check' asks about is denied; of 'run' that of
its program.

Examples:
  throttle gateway -to http://127.0.0.1:3000 -limit '100/min by address'
  throttle serve gateway.yaml
  throttle check gateway.yaml -request 'GET /x'
  throttle take 3/h backup && backup
  throttle egress -to https://api.github.com
  throttle run -host api.github.com -- python job.py
  throttle find http://127.0.0.1:3000/
  throttle sim -policy backoff,adaptive emr-shared
  throttle help sim
`)
	_, err := io.WriteString(w, b.String())
	return err
}
