// Package rules is the command 'throttle rules': it checks a file of rules.
package rules

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	ours "github.com/throttle-go/throttle/rules"
)

const help = `throttle rules checks a file of rules, as programs read it: YAML or JSON.

Usage: throttle rules [flags] FILE

It prints the version and how many rules there are. A mistake is reported with
its line and column, and the exit code is 2. FILE is - for standard input.

Flags:
  -known NAMES  values and costs that the program knows, separated by commas

Examples:
  throttle rules rules.json
  throttle rules -known customer,bytes rules.json
`

// Run checks a file.
func Run(_ context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("rules", flag.ContinueOnError)
	known := flags.String("known", "", "")
	names, err := usage.ParseFlags(flags, args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) != 1:
		return usage.Error("rules: write 'throttle rules FILE'")
	}
	var all []string
	if *known != "" {
		all = strings.Split(*known, ",")
	}
	if _, err := ours.Compile(ours.Set{}, all...); err != nil {
		return usage.Errorf("rules: -known %s: %s", words.Quote(*known), strings.TrimPrefix(err.Error(), "rules: "))
	}
	name := names[0]
	text, err := read(name, stdin)
	if err != nil {
		return usage.Errorf("rules: %v", err)
	}
	root, err := tree.Rules(text)
	var c *ours.Compiled
	if err == nil {
		c, err = ours.ParseNode(root, all...)
	}
	if err != nil {
		return flawOf(name, err, *known == "")
	}
	return describe(stdout, name, c)
}

// read reads a file, and no more of it than Parse takes.
func read(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, ours.MaxSize+1))
	}
	f, err := infile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written that could be lost
	return io.ReadAll(io.LimitReader(f, ours.MaxSize+1))
}

// flawOf returns FILE:LINE:COLUMN: PATH: what is wrong.
func flawOf(name string, err error, unnamed bool) error {
	var e *ours.Error
	if !errors.As(err, &e) {
		return usage.Errorf("%s: %v", name, err)
	}
	text := name
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", name, e.Line, e.Column)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	text += ": " + e.What
	if unnamed && (strings.Contains(e.What, "unknown part") || strings.Contains(e.What, "the program knows no")) {
		text += "; name what the program knows by -known"
	}
	return usage.Error(text)
}

// describe says what good rules are.
func describe(w io.Writer, name string, c *ours.Compiled) error {
	text, err := c.MarshalJSON()
	if err != nil {
		return err
	}
	var s ours.Set
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	off, shadow := 0, 0
	for _, r := range s.Rules {
		switch {
		case r.Off:
			off++
		case r.Shadow.Rule:
			shadow++
		}
	}
	var sorts []string
	if shadow > 0 {
		sorts = append(sorts, words.Whole(int64(shadow))+" shadow")
	}
	if off > 0 {
		sorts = append(sorts, words.Whole(int64(off))+" off")
	}
	line := fmt.Sprintf("%s: good: version %s, %s", name, c.Version(), words.Plural(len(s.Rules), "rule", "rules"))
	if len(sorts) > 0 {
		line += " (" + strings.Join(sorts, ", ") + ")"
	}
	if n := len(s.Deny) + len(s.Allow); n > 0 {
		line += ", " + words.Plural(n, "entry", "entries") + " in deny and allow"
	}
	_, err = fmt.Fprintln(w, words.OneLine(line))
	return err
}
