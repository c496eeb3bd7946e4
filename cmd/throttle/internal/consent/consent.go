// Package consent asks for 'throttle find' before requests are sent to another
// machine.
package consent

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"golang.org/x/term"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
)

// Loopback reports whether u leads to this machine by its text. The dialer has to
// hold connections to that, as a name may resolve to anything.
func Loopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Ask asks a question on the terminal that stdin and stderr are, and returns nil
// for yes. Without a terminal it is wrong usage: without is the reason.
func Ask(question, without string, stdin io.Reader, stderr io.Writer) error {
	if !onTerminal(stdin) || !onTerminal(stderr) {
		return usage.Errorf("%s", without)
	}
	return ask(question, stdin, stderr)
}

// onTerminal reports whether a stream is a terminal.
func onTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask ends with an interrupt, as reading stdin does.
func ask(question string, stdin io.Reader, stderr io.Writer) error {
	fmt.Fprintf(stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(stdin, 1<<10)).ReadString('\n')
	if err != nil && err != io.EOF {
		fmt.Fprintln(stderr)
		return exit.Failf("find: %v", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return exit.Failure("find: nothing was sent")
}
