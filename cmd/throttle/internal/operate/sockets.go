package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// maxSockets bounds the sockets that are inherited.
const maxSockets = 64

// Sockets are the listening sockets that the service manager has opened for this
// process (socket activation). They outlive it: connections that come while the
// program is restarted wait in the kernel for the next process. The zero value has
// none. It is safe for concurrent use.
type Sockets struct {
	mu  sync.Mutex
	all []inherited
}

type inherited struct {
	name string
	net.Listener
}

// Inherit returns the sockets that LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES name,
// and removes these from the environment, as they are not for child processes. It
// is called once, before anything opens files.
func Inherit() (*Sockets, error) {
	s := new(Sockets)
	count, pid, names := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_PID"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return s, err
		}
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return s, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxSockets {
		return s, fmt.Errorf("LISTEN_FDS is %.20q: it must be a number up to %d", count, maxSockets)
	}
	for i := range n {
		name := ""
		if i < len(names) {
			name = names[i]
		}
		if err := s.add(3+i, name); err != nil {
			return s, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Sockets) add(fd int, name string) error {
	closeOnExec(fd)
	f := os.NewFile(uintptr(fd), name)
	l, err := net.FileListener(f) // a copy
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("socket %d (%.40q) of LISTEN_FDS: %w", fd, name, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it is the service manager's
	}
	s.all = append(s.all, inherited{name, l})
	return nil
}

// Listen returns a listener for an address: HOST:PORT, :PORT, unix:PATH, or
// systemd:NAME (the FileDescriptorName of a socket unit). If an inherited socket
// has the address, or is the one of that name, it is that one; each is given once.
// Else a new one is opened; a unix socket, which only its owner and group may use,
// replaces one that no process listens on any more.
func (s *Sockets) Listen(ctx context.Context, address string) (net.Listener, error) {
	if l := s.take(address); l != nil {
		return l, nil
	}
	if name, ok := strings.CutPrefix(address, "systemd:"); ok {
		return nil, fmt.Errorf("listen %s: no socket named %q was inherited: see FileDescriptorName in systemd.socket(5)", address, name)
	}
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err := removeDead(path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ListenBeside returns a listener for HOST:PORT as Listen does. A new one shares the port
// with those of other processes that have opened it so (SO_REUSEPORT).
func (s *Sockets) ListenBeside(ctx context.Context, address string) (net.Listener, error) {
	if l := s.take(address); l != nil {
		return l, nil
	}
	shared := net.ListenConfig{Control: reusePort}
	return shared.Listen(ctx, "tcp", address)
}

func (s *Sockets) take(address string) net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.all {
		if named := address == "systemd:"+l.name; named || same(l.Addr(), address) {
			s.all = append(s.all[:i:i], s.all[i+1:]...)
			return l.Listener
		}
	}
	return nil
}

// same reports whether a socket is what an address asks for.
func same(a net.Addr, address string) bool {
	if a.Network() == "unix" {
		return "unix:"+a.String() == address
	}
	is, err := netip.ParseAddrPort(a.String())
	host, port, wrong := net.SplitHostPort(address)
	if err != nil || wrong != nil || strconv.Itoa(int(is.Port())) != port {
		return false
	}
	want, err := netip.ParseAddr(host)
	switch {
	case host == "":
		return is.Addr().IsUnspecified()
	case host == "localhost":
		return is.Addr().IsLoopback()
	}
	return err == nil && want.Unmap() == is.Addr().Unmap()
}

// removeDead removes a unix socket that no process listens on.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("listen unix:%s: there is something else at that path", path)
	}
	switch c, err := net.Dial("unix", path); {
	case err == nil:
		return errors.Join(fmt.Errorf("listen unix:%s: another process listens there", path), c.Close())
	case !errors.Is(err, syscall.ECONNREFUSED): // as of one that is full, is for datagrams, or another user's
		return fmt.Errorf("listen unix:%s: a socket is there that may be in use: %w; remove it if not", path, err)
	}
	return os.Remove(path)
}

// Left returns the names, or else the addresses, of the sockets that were not
// taken: the service manager opens them, and the file does not use them.
func (s *Sockets) Left() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		if l.name == "" {
			names = append(names, l.Addr().String())
		} else {
			names = append(names, l.name)
		}
	}
	return names
}

// Close closes the sockets that nothing has taken.
func (s *Sockets) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, l := range s.all {
		errs = append(errs, l.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}
