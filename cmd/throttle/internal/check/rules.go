package check

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

// isRules reports whether text is a file of rules rather than of 'throttle serve'.
func isRules(data []byte) bool {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("/")) {
		return true // JSON that begins with a comment is of rules
	}
	root, err := tree.Parse("", data) // which is YAML too, so JSON with a comma too many
	if err != nil {
		return false
	}
	for _, f := range root.Fields {
		switch {
		case f.Name == "gateway" || f.Name == "envoy" || f.Name == "admin" || f.Name == "store":
			return false
		case f.Name == "rules" && f.Value.Kind != tree.Map:
			return true
		case f.Name == "rules":
			inner := f.Value.Fields
			return len(inner) > 0 && inner[0].Name == "name"
		}
	}
	return false
}

// compile reads rules; the error is of one line, with the place.
func compile(name string, data []byte, known []string) (*rules.Compiled, error) {
	root, err := tree.Rules(data)
	var c *rules.Compiled
	if err == nil {
		c, err = rules.ParseNode(root, known...)
	}
	e := (*rules.Error)(nil)
	switch {
	case err == nil:
		return c, nil
	case !errors.As(err, &e):
		return nil, usage.Errorf("%s: %v", name, err)
	}
	what := strings.TrimPrefix(e.Path+": ", ": ") + e.What
	if len(known) == 0 && strings.Contains(e.What, "unknown part") || strings.Contains(e.What, "the program knows no") {
		what += "; a name that the program knows is given by -value NAME=VALUE or -cost NAME=N"
	}
	return nil, &tree.Error{File: name, Line: e.Line, Column: e.Column, What: what}
}

// readRules reads a file of rules.
func readRules(path string) ([]byte, error) {
	f, err := infile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	return io.ReadAll(io.LimitReader(f, rules.MaxSize+1))
}

// apart warns of limits that a request has to pass together, and whose keys are in
// different slots of Redis.
func (f *found) apart() (all []string) {
	if !f.parted {
		return nil
	}
	const end = "answered 503, as slots in store.url puts their keys in different slots of Redis; leave slots out"
	var limited []string
	for _, r := range f.rules.Set().Rules {
		if r.Off || r.Shadow.Rule || len(r.Limits) == 0 {
			continue
		}
		limited = append(limited, r.Name)
		if len(r.Limits) > 1 {
			all = append(all, fmt.Sprintf("%s: rule %s: a request that its %d limits are for is "+end, f.rulesOf, r.Name, len(r.Limits)))
		}
	}
	if len(limited) > 1 {
		all = append(all, fmt.Sprintf("%s: rules %s: a request that two of them are for is "+end, f.rulesOf, words.Enumerate(limited)))
	}
	return all
}

// count says how many rules there are.
func count(c *rules.Compiled) string {
	var s rules.Set
	text, err := c.MarshalJSON()
	if err == nil {
		err = s.UnmarshalJSON(text)
	}
	if err != nil {
		return "rules" // they were compiled, so this does not happen
	}
	return fmt.Sprintf("version %s, %s", c.Version(), words.Plural(len(s.Rules), "rule", "rules"))
}
