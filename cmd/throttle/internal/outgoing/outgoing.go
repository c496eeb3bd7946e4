// Package outgoing is what 'throttle find' sends to a service, and to which: it
// reads the header fields and the body of a request from flags, and keeps
// connections to this machine unless somebody agreed to others.
package outgoing

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/term"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Loopback reports whether u leads to this machine by its text. The dialer has to
// hold connections to that, as a name may resolve to anything.
func Loopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ErrAway refuses a connection to another machine.
var ErrAway = errors.New("not an address of this machine")

// StayHere is the Control of a net.Dialer that connects to this machine only,
// whatever a name resolves to. Its error is an ErrAway.
func StayHere(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s: %w", address, ErrAway)
	}
	return nil
}

// own are the fields that net/http writes by itself, whatever they are set to.
var own = []string{"Content-Length", "Transfer-Encoding", "Trailer"}

// Header reads fields written as 'Name: value'.
func Header(fields []string) (http.Header, error) {
	header := http.Header{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, usage.Errorf("find: -H %s: want 'Name: value'", words.FieldName(f))
		}
		if slices.Contains(own, http.CanonicalHeaderKey(name)) {
			return nil, usage.Errorf("find: -H %s: is for the connection and not sent as it is written; leave it out", name)
		}
		header.Add(name, value)
	}
	return header, nil
}

const mostData = 16 << 20 // bytes of a body

// Data reads a body: the text itself, or after @ the name of a file.
func Data(text string) ([]byte, error) {
	name, file := strings.CutPrefix(text, "@")
	if !file {
		return []byte(text), nil
	}
	f, err := infile.Open(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, usage.Errorf("find: -d: %s: %v", words.Quote(name), err)
	}
	defer f.Close() // nothing was written that could be lost
	data, err := io.ReadAll(io.LimitReader(f, mostData+1))
	switch {
	case err != nil:
		return nil, usage.Errorf("find: -d: %v", err)
	case len(data) > mostData:
		return nil, usage.Errorf("find: -d: %s has more than %d MiB", words.Quote(name), mostData>>20)
	}
	return data, nil
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
