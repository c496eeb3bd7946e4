package find

import (
	"bufio"
	"context"
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

// isLoopback reports whether a URL leads to this machine by its text. The dialer
// holds connections to that.
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

// consent asks before anything is sent to another machine. Without a terminal to
// ask on, -yes must have been said.
func (o *options) consent(_ context.Context, stdin io.Reader, stderr io.Writer) error {
	if o.command != nil || isLoopback(o.request.URL) {
		return nil
	}
	o.request.Away = true
	switch {
	case o.yes:
		return nil
	case !onTerminal(stdin) || !onTerminal(stderr):
		return usage.Errorf("find: %s is not this machine, and there is no terminal to ask on; say -yes if you may load it", words.Quote(o.request.URL.Hostname()))
	}
	return o.ask(stdin, stderr)
}

// ask asks on a terminal. It ends with an interrupt, as reading stdin does.
func (o *options) ask(stdin io.Reader, stderr io.Writer) error {
	b := o.search.Bounds
	fmt.Fprintf(stderr, "Load %s, until it fails, with up to %s requests in up to %s? [y/N] ",
		o.request.URL.Host, words.Whole(int64(b.Requests)), words.Short(b.Time))
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
