package probe

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
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// isLoopback reports whether a URL can only lead to this machine.
func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// onTerminal reports whether a stream is a terminal.
func onTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// consent asks on the terminal whether so many requests may be sent. Without
// one it refuses.
func consent(question string, host string, stdin io.Reader, stderr io.Writer) error {
	if !onTerminal(stdin) || !onTerminal(stderr) {
		return usage.Errorf("find: %s is not this machine, and there is no terminal to ask on; say -yes if you may send %s", words.Quote(host), question)
	}
	return ask(question, host, stdin, stderr)
}

func ask(question, host string, stdin io.Reader, stderr io.Writer) error {
	fmt.Fprintf(stderr, "Send %s to %s? [y/N] ", question, host)
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
