// Package config reads the files of 'throttle serve'. One description, the tags of
// File, makes the decoder, the JSON schema and the table in docs/serve.md.
package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
)

// place is where a value stands.
type place struct {
	file         string
	line, column int
}

// files are files being read together. It keeps the first thing that is wrong.
type files struct {
	lookup func(name string) (string, bool)
	places map[string]place
	// secrets are the files that ${file:PATH} names.
	secrets []string
	err     error
}

func (f *files) fail(file string, line, column int, format string, a ...any) {
	if f.err == nil {
		f.err = &tree.Error{File: file, Line: line, Column: column, What: fmt.Sprintf(format, a...)}
	}
}

// A Named is a file and its name.
type Named struct {
	Name string
	Data []byte
}

// Read reads files by their names; - is standard input. Of each it reads no more
// than is needed to say that it is too long. Without stdin they are read again, while
// the program runs: a pipe is an error then, as it may never end.
func Read(names []string, stdin io.Reader) (all []Named, err error) {
	for i, name := range names {
		if name == "-" && slices.Contains(names[:i], name) {
			return nil, errors.New("- can be read once; write the name of a file")
		}
		data, err := readOne(name, stdin)
		if err != nil {
			return nil, err
		}
		all = append(all, Named{name, data})
	}
	return all, nil
}

func readOne(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, tree.MaxSize+1))
	}
	open := infile.Open
	if stdin == nil {
		open = infile.OpenAgain
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	return io.ReadAll(io.LimitReader(f, tree.MaxSize+1))
}

// Parse reads files together, each section in one of them. lookup returns the
// variables of the environment. The error is a *tree.Error with the place of the
// first thing that is wrong; it shows no variable and no secret.
func Parse(all []Named, lookup func(name string) (string, bool)) (*File, error) {
	f := &files{lookup: lookup, places: map[string]place{}}
	out := &File{places: f.places}
	given := map[string]string{}
	for _, one := range all {
		n, err := tree.Parse(one.Name, one.Data)
		if err != nil {
			return nil, err
		}
		f.expand(one.Name, n)
		f.sections(one.Name, n, given)
		d := &decoder{f, one.Name}
		d.value(n, reflect.ValueOf(out).Elem(), field{}, "")
		if f.err != nil {
			return nil, f.err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no file")
	}
	f.check(all, out)
	if f.err != nil {
		return nil, f.err
	}
	return out, nil
}

// sections refuses a section that another file has, and rules in place of what says
// where they are.
func (f *files) sections(name string, n *tree.Node, given map[string]string) {
	for _, s := range n.Fields {
		if s.Name == "rules" && s.Value.Kind == tree.List {
			f.fail(name, s.Line, s.Column, "rules: write a list of rules into a file of its own, and name that file, as in rules: {file: rules.yaml}")
		}
		if other, ok := given[s.Name]; ok && s.Name != "version" {
			f.fail(name, s.Line, s.Column, "%s is in %s already; write each section into one file", s.Name, other)
		}
		given[s.Name] = name
	}
}

// Fail is an error about the value at a path, such as gateway.routes[0].to, for
// what is found to be wrong with it later on.
func (f *File) Fail(path, format string, a ...any) error {
	at, path := nearestPlace(f.places, path)
	what := strings.TrimPrefix(path+": ", ": ") + fmt.Sprintf(format, a...)
	return &tree.Error{File: at.file, Line: at.line, Column: at.column, What: what}
}

// nearestPlace is where a path is, or the nearest that would hold it.
func nearestPlace(places map[string]place, path string) (place, string) {
	for {
		if at, found := alone(places, path, 0); found != "" || path == "" {
			return at, found
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// alone finds a path in which a [0] may be left out, as one value may stand in
// place of a list.
func alone(places map[string]place, path string, from int) (place, string) {
	if at, ok := places[path]; ok {
		return at, path
	}
	for {
		i := strings.Index(path[from:], "[0]")
		if i < 0 {
			return places[""], ""
		}
		from += i
		if at, found := alone(places, path[:from]+path[from+3:], from); found != "" {
			return at, found
		}
		from += 3
	}
}

// Has reports whether a value stands in the file, at a path as of Fail.
func (f *File) Has(path string) bool {
	_, found := alone(f.places, path, 0)
	return found != ""
}
