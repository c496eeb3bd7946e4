// Package infile reads the input of a command until a signal ends the process: a
// named pipe may never have a writer, and a terminal never anything to read.
package infile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Until ends what waits for input. It must not change after first use.
var Until = context.Background()

var (
	errInterrupted = errors.New("interrupted")
	errEmpty       = errors.New("the name of a file is empty, as by a variable that is not set; write a name")
)

// Open opens a file for reading. Of a pipe or a device, Open and Read end with Until.
func Open(name string) (io.ReadCloser, error) {
	if name == "" {
		return nil, errEmpty
	}
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() || info.IsDir() {
		return os.Open(name)
	}
	f, err := wait(func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		return nil, err
	}
	return pipe{f}, nil
}

var errPipe = errors.New("is a pipe, a socket or a device, which cannot be read again; name a file")

// OpenAgain opens a file that is read again while the program runs. One that is a pipe, a
// socket or a device is an error: opening it may wait for its other end for good, and what
// waits for its reader with it.
func OpenAgain(name string) (io.ReadCloser, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errPipe}
	}
	return os.Open(name)
}

// pipe hides the other methods of a file, which do not end with Until.
type pipe struct{ f *os.File }

func (p pipe) Read(b []byte) (int, error) { return Read(p.f, b) }
func (p pipe) Close() error               { return p.f.Close() }

// Read reads from r, or ends with Until.
func Read(r io.Reader, b []byte) (int, error) {
	text, err := wait(func() ([]byte, error) {
		text := make([]byte, len(b)) // b is the caller's again if this is given up
		n, err := r.Read(text)
		return text[:n], err
	})
	return copy(b, text), err
}

// wait calls f, or ends with Until; then f keeps its goroutine until the process ends.
func wait[T any](f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-Until.Done():
		return *new(T), errInterrupted
	}
}
