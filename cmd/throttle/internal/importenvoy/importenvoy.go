// Package importenvoy translates the configuration of envoyproxy/ratelimit, trees of
// descriptors in YAML, into rules that decide the same.
package importenvoy

import (
	"fmt"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

// mostRules are those that a file of rules may have.
const mostRules = 1000

// A Source is one file of the configuration.
type Source struct {
	Name string // for errors
	Data []byte
}

// A Result is what the files are in rules.
type Result struct {
	Set rules.Set
	// Places says where each of the rules comes from: FILE:LINE:COLUMN.
	Places []string
	// Notes say what was left out, and what may surprise.
	Notes []string
}

// Translate returns the rules that decide as the reference does with these files. Each
// has a domain of its own, or, if merge is true, several may have parts of one, in their
// order. What the reference refuses is an error, and so is what rules cannot decide in
// the same way. The error is a *tree.Error.
func Translate(sources []Source, merge bool) (Result, error) {
	t := &translation{names: map[string]bool{}}
	domains, err := readAll(sources, merge, &t.notes)
	if err != nil {
		return Result{}, err
	}
	for _, d := range domains {
		if err := t.domain(d); err != nil {
			return Result{}, err
		}
	}
	if err := t.compile(); err != nil {
		return Result{}, err
	}
	done := Result{Set: t.set, Notes: t.notes.lines()}
	for _, p := range t.places {
		done.Places = append(done.Places, p.String())
	}
	return done, nil
}

// readAll reads files as domains, in their order.
func readAll(sources []Source, merge bool, n *notes) (all []*domain, err error) {
	seen := map[string]*domain{}
	r := &reading{notes: n}
	for _, s := range sources {
		r.file = s.Name
		d, err := r.domain(s.Data)
		if err != nil {
			return nil, err
		}
		switch first := seen[d.name]; {
		case first == nil:
			seen[d.name] = d
			all = append(all, d)
		case !merge:
			return nil, d.at.fail("domain %s is that of %s too; write one file for each domain, or -merge for the parts of one", words.Quote(d.name), first.at.file)
		default:
			first.nodes = append(first.nodes, d.nodes...)
			if r.unique(first.nodes); r.err != nil {
				return nil, r.err
			}
		}
	}
	return all, nil
}

// place is where something stands.
type place struct {
	file         string
	line, column int
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column) }

// fail returns a mistake with its place.
func (p place) fail(format string, a ...any) *tree.Error {
	return &tree.Error{File: p.file, Line: p.line, Column: p.column, What: fmt.Sprintf(format, a...)}
}
