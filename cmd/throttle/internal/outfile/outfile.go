// Package outfile writes the files that options name, whole or not at all, and
// checks before the work that they can be written.
package outfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/links"
)

// Dash in place of a file means standard output.
const Dash = "-"

// An Output is an option and the file it names, if any.
type Output struct {
	Option, Path string
	// Begins is how what is written begins. A file that begins otherwise, such as a
	// scenario behind -html, is not written over. If empty, any file is.
	Begins string
	// Written names the command that writes files that begin so, for the error about
	// one that does not. If empty, the error shows Begins.
	Written string
}

// How pages and pictures begin.
const (
	HTML = "<!doctype html>"
	SVG  = "<svg"
)

// Check reports whether all that is asked for can be written: better to
// know before the work than after it. One page at most goes to standard output,
// in place of the tables, and none over another or over reads, the files that
// the work reads.
func Check(json bool, reads []string, outputs ...Output) error {
	taken := ""
	if json {
		taken = "-json"
	}
	for i, o := range outputs {
		if err := o.alone(reads, outputs[:i]); err != nil {
			return err
		}
		switch {
		case o.Path != Dash:
			if err := CheckWritable(o.Option, o.Path); err != nil {
				return err
			}
			if o.another() {
				return o.kept()
			}
		case taken != "":
			return usage.Errorf("%s and %s -: only one can go to standard output; write %s FILE", taken, o.Option, o.Option)
		default:
			taken = o.Option + " -"
		}
	}
	return nil
}

// kept is the error about a file that is not written over.
func (o Output) kept() error {
	is := "does not begin with " + o.Begins
	if o.Written != "" {
		is = "was not written by " + o.Written
	}
	return usage.Errorf("%s: %s is there and %s; name another file, or remove it", o.Option, words.Quote(o.Path), is)
}

// another reports whether the file is there, and is of another sort than what is
// written.
func (o Output) another() bool {
	if o.Begins == "" {
		return false
	}
	if info, err := os.Stat(o.Path); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	f, err := os.Open(o.Path)
	if err != nil {
		return true // nobody knows
	}
	defer f.Close() // nothing was written that could be lost
	begins := make([]byte, len(o.Begins))
	n, _ := io.ReadFull(f, begins)
	return string(begins[:n]) != o.Begins
}

// alone refuses an output over a file that is read, or over one of others.
func (o Output) alone(reads []string, others []Output) error {
	for _, name := range reads {
		if Same(o.Path, name) {
			return usage.Errorf("%s: %s is read, and would be written over; name another file", o.Option, words.Quote(o.Path))
		}
	}
	for _, other := range others {
		if Same(o.Path, other.Path) {
			return usage.Errorf("%s and %s: both to %s; name two files", other.Option, o.Option, words.Quote(o.Path))
		}
	}
	return nil
}

// Same reports whether two names are of one file, even if that is not there yet.
// A pipe or a device, as /dev/null, may be named twice.
func Same(a, b string) bool {
	if a == "" || b == "" || a == Dash || b == Dash {
		return false
	}
	a, b = links.Follow(a), links.Follow(b)
	x, missing := os.Stat(a)
	y, err := os.Stat(b)
	if missing == nil && err == nil {
		return x.Mode().IsRegular() && os.SameFile(x, y)
	}
	a, missing = filepath.Abs(a)
	b, err = filepath.Abs(b)
	return missing == nil && err == nil && a == b
}

// CheckWritable reports whether a file of that name can be written.
func CheckWritable(option, path string) error {
	if path == "" || path == Dash {
		return nil
	}
	if err := Writable(path); err != nil {
		return usage.Errorf("%s: %v", option, err)
	}
	return nil
}

// Folder makes the folder that an option names, with those above it, and reports whether
// files can be written into it.
func Folder(option, path string) error {
	var e *fs.PathError // it names the part that could not be made, or is a file
	switch err := os.MkdirAll(path, 0o755); {
	case err == nil:
		return CheckWritable(option, filepath.Join(path, "x"))
	case errors.Is(err, syscall.ENOTDIR) && errors.As(err, &e):
		return usage.Errorf("%s: %s is not a directory; name another", option, words.Quote(e.Path))
	case errors.As(err, &e):
		return usage.Errorf("%s: cannot make the directory %s: %v", option, words.Quote(e.Path), e.Err)
	default:
		return usage.Errorf("%s: %v", option, err)
	}
}

// Writable returns why a file of that name cannot be written; nil if it can.
func Writable(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory; name a file", words.Quote(path))
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe may be opened only once
	}
	path = links.Follow(path)
	f, err := os.CreateTemp(filepath.Dir(path), ".throttle.*")
	if err != nil {
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			err = e.Err // without the name of the file that was tried
		}
		return fmt.Errorf("cannot write to %s: %w", words.Quote(filepath.Dir(path)), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Write lets fill write a file, which is there complete or as it was
// before.
func Write(path string, fill func(io.Writer) error) error {
	mode := fs.FileMode(0o644)
	path = links.Follow(path)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		// A pipe or a device must not be replaced by a file.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return fillFile(f, fill)
	case err == nil:
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = fillFile(f, fill)
	if err == nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// fillFile lets fill write f, and closes it.
func fillFile(f *os.File, fill func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	err := fill(w)
	if err == nil {
		err = w.Flush()
	}
	return errors.Join(err, f.Close())
}
