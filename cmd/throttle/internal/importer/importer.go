// Package importer is the command 'throttle import': it makes rules of the configuration
// of another rate limiter.
package importer

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

const help = `throttle import envoy makes rules of the configuration of envoyproxy/ratelimit.

Usage: throttle import envoy [flags] FILE...

It reads the YAML files of its config folder, one for each domain, and writes
rules that decide the same. What has no effect on decisions is left out, with a
warning; what rules cannot decide in the same way is refused, with its line and
column, and the exit code is 2. FILE is - for standard input.

Flags:
  -merge   files may have parts of one domain, as with MERGE_DOMAIN_CONFIG
  -overrides
           one rule with overrides for the values of a key, in place of a rule each
  -o FILE  write to a file, whole or not at all, in place of standard output
  -json    JSON in place of YAML

Examples:
  throttle import envoy -o rules.yaml config/*.yaml
  throttle import envoy -overrides config/edge.yaml
`

// Bounds of one import.
const (
	mostFiles = 1000
	mostBytes = 16 << 20 // of all files
)

type options struct {
	out       string
	json      bool
	merge     bool
	overrides bool
	files     []string
}

// Run makes rules of files.
func Run(_ context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := optionsOf(args)
	if err != nil {
		return usage.Help(err, help, stdout)
	}
	text, notes, err := o.translate(stdin)
	if err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(stderr, "warning: "+words.OneLine(note)); err != nil {
			return err
		}
	}
	if o.out != "" && o.out != outfile.Dash {
		return outfile.Write(o.out, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	_, err = stdout.Write(text)
	return err
}

func optionsOf(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.StringVar(&o.out, "o", "", "")
	flags.BoolVar(&o.merge, "merge", false, "")
	flags.BoolVar(&o.overrides, "overrides", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, usage.Error("import: write 'throttle import envoy FILE...'")
	case names[0] != "envoy":
		return nil, usage.Errorf("import: %s is not known; write 'throttle import envoy FILE...'", words.Quote(names[0]))
	case len(names) == 1:
		return nil, usage.Error("import: no file; write 'throttle import envoy FILE...', as in config/*.yaml")
	case len(names) > mostFiles+1:
		return nil, usage.Errorf("import: %d files; at most %d", len(names)-1, mostFiles)
	}
	o.files = names[1:]
	if o.out == "" {
		return o, nil
	}
	begins := importenvoy.Begins
	if o.json {
		begins = "{\n  \"rules\": ["
	}
	return o, outfile.Check(false, o.files, outfile.Output{Option: "-o", Path: o.out, Begins: begins, Written: "import envoy"})
}

// translate returns the file of rules, and what to say about it.
func (o *options) translate(stdin io.Reader) (text []byte, notes []string, err error) {
	var sources []importenvoy.Source
	size := 0
	for _, name := range o.files {
		data, err := read(name, stdin)
		if err != nil {
			return nil, nil, usage.Errorf("import: %v", err)
		}
		if size += len(data); size > mostBytes {
			return nil, nil, usage.Errorf("import: the files up to %s have more than %d MiB; import fewer at once", words.Quote(name), mostBytes>>20)
		}
		sources = append(sources, importenvoy.Source{Name: name, Data: data})
	}
	done, err := importenvoy.Translate(sources, importenvoy.Options{Merge: o.merge, Overrides: o.overrides})
	if err != nil {
		return nil, nil, usage.Error(err.Error())
	}
	text = done.YAML()
	if o.json {
		if text, err = json.MarshalIndent(done.Set, "", "  "); err != nil {
			return nil, nil, err
		}
		text = append(text, '\n')
	}
	return text, done.Notes, readable(text)
}

// read reads a file, and no more of it than is parsed.
func read(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, tree.MaxSize+1))
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name its files, as in %s", words.Quote(name), words.Quote(filepath.Join(name, "*.yaml")))
	}
	f, err := infile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written that could be lost
	return io.ReadAll(io.LimitReader(f, tree.MaxSize+1))
}

// readable says why the rules would not be read, if they are too long.
func readable(text []byte) error {
	if len(text) > rules.MaxSize {
		return usage.Errorf("import: the rules would have %d bytes; a file of rules has at most %d", len(text), rules.MaxSize)
	}
	root, err := tree.Rules(text)
	if err == nil {
		_, err = rules.ParseNode(root)
	}
	if flaw := (*rules.Error)(nil); errors.As(err, &flaw) {
		return usage.Errorf("import: the rules would not be read: line %d: %s", flaw.Line, flaw.What)
	}
	return err
}
