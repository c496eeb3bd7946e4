//go:build unix

package upstream

import "syscall"

// looks says that quiet can tell.
const looks = true

// quiet reports whether nothing has come that nobody has read, not even the end. What an
// upstream sends without a request must not become the answer to the next.
func (l *wire) quiet() bool {
	quiet := false
	err := l.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		for err == syscall.EINTR {
			_, err = syscall.Read(int(fd), b[:])
		}
		quiet = err == syscall.EAGAIN
		return true // and do not wait
	})
	return err == nil && quiet
}
