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

// mostJoined bounds rules that are joined to fewer.
const mostJoined = mostDescriptors

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

// Options are choices of a translation.
type Options struct {
	// Merge allows several files to have parts of one domain, in their order.
	Merge bool
	// Overrides writes one rule, with overrides, for all values of a key that have a
	// limit each, where the entries before it have fixed values.
	Overrides bool
}

// Translate returns the rules that decide as the reference does with these files. Each
// has a domain of its own, unless parts are merged. What the reference refuses is an error, and so is what rules cannot decide in
// the same way. The error is a *tree.Error.
func Translate(sources []Source, o Options) (Result, error) {
	t := &translation{names: map[string]bool{}, most: mostRules}
	if o.Overrides {
		t.most = mostJoined
	}
	domains, err := readAll(sources, o.Merge, &t.notes)
	if err != nil {
		return Result{}, err
	}
	return t.translate(domains, o.Overrides)
}

// Resources returns the rules that decide as the reference does with the resources of a
// management server: RateLimitConfigs of xDS in the wire format of Protocol Buffers, in any
// order, each of a domain of its own. It is as Translate else, but for three things: places
// are the name of a resource and a path; a limit that Envoy sends with a descriptor counts
// in place of that of a rule (rules.Rule.Lookup), as there; and the name of a rule does not
// depend on others at all, so that none starts unused where another comes or goes.
func Resources(resources [][]byte) (Result, error) {
	t := &translation{names: map[string]bool{}, most: mostRules, served: true}
	domains, err := readResources(resources, &t.notes)
	if err != nil {
		return Result{}, err
	}
	return t.translate(domains, false)
}

// translate makes the rules of domains.
func (t *translation) translate(domains []*domain, overrides bool) (Result, error) {
	for _, d := range domains {
		if err := t.domain(d); err != nil {
			return Result{}, err
		}
	}
	if overrides {
		t.join()
	}
	if n := len(t.set.Rules); n > mostRules {
		return Result{}, t.places[mostRules].tooMany()
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
		d, err := r.parse(s.Data)
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

// place is where something stands: in a resource, file is its name and a path, and line is
// zero.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

// tooMany is the mistake of a limit for which there is no room.
func (p place) tooMany() *tree.Error {
	if p.line == 0 {
		return p.fail("this limit would be rule %d; there are at most %d", mostRules+1, mostRules)
	}
	return p.fail("this limit would be rule %d; a file of rules has at most %d, and -overrides makes one of those for single values of a key", mostRules+1, mostRules)
}

// fail returns a mistake with its place.
func (p place) fail(format string, a ...any) *tree.Error {
	return &tree.Error{File: p.file, Line: p.line, Column: p.column, What: fmt.Sprintf(format, a...)}
}
