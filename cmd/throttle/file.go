package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// dash in place of a file means standard output.
const dash = "-"

// output is an option that names a file.
type output struct{ option, path string }

// checkOutputs reports whether all that is asked for can be written: better to
// know before the work than after it. One page at most goes to standard output,
// in place of the tables.
func checkOutputs(json bool, outputs ...output) error {
	taken := ""
	if json {
		taken = "-json"
	}
	for _, o := range outputs {
		switch {
		case o.path != dash:
			if err := checkWritable(o.option, o.path); err != nil {
				return err
			}
		case taken != "":
			return usageErrorf("%s and %s -: only one can go to standard output; write %s FILE", taken, o.option, o.option)
		default:
			taken = o.option + " -"
		}
	}
	return nil
}

// checkWritable reports whether a file of that name can be written.
func checkWritable(option, path string) error {
	if path == "" || path == dash {
		return nil
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return usageErrorf("%s: %s is a directory; name a file", option, quote(path))
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe may be opened only once
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".throttle.*")
	if err != nil {
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			err = e.Err // without the name of the file that was tried
		}
		return usageErrorf("%s: cannot write to %s: %v", option, quote(filepath.Dir(path)), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeFile lets fill write a file, which is there complete or as it was
// before.
func writeFile(path string, fill func(io.Writer) error) error {
	mode := fs.FileMode(0o644)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
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
