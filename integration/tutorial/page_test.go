package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// A step is a block of the page: a file that the reader saves, or lines that the
// reader types.
type step struct {
	line     int    // of its first line
	file     string // where code goes, or ""
	replaces bool   // an earlier file of that name
	code     string
	typed    []typed
}

// A typed line is a command and what it prints, but for what varies.
type typed struct {
	line    int
	command string
	prints  string
	varies  []*regexp.Regexp
}

var (
	saved    = regexp.MustCompile("(?s)(Save\\s+this|Replace)[^`]*`([a-z/]+\\.go)`:$")
	variable = regexp.MustCompile(`^<!-- varies: (.+) -->$`)
)

// A reader goes through a page line by line.
type reader struct {
	steps     []step
	fence     string // the kind of the block that it is in, or ""
	paragraph string // the one before
	varies    []*regexp.Regexp
}

// read returns the steps of a page. A block that would not be run is an error.
func read(page string) ([]step, error) {
	var r reader
	for i, line := range strings.Split(page, "\n") {
		if err := r.line(i+1, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if r.fence != "" {
		return nil, fmt.Errorf("the last block does not end")
	}
	return r.steps, nil
}

func (r *reader) line(n int, line string) error {
	kind, isFence := strings.CutPrefix(line, "```")
	switch {
	case isFence && r.fence == "":
		return r.begin(n+1, kind)
	case isFence:
		*r = reader{steps: r.steps}
	case r.fence == "go":
		r.steps[len(r.steps)-1].code += line + "\n"
	case r.fence == "console":
		return r.console(n, line)
	case variable.MatchString(line):
		v, err := regexp.Compile("(?m)" + variable.FindStringSubmatch(line)[1])
		r.varies = append(r.varies, v)
		return err
	case line != "":
		r.paragraph += line + "\n"
	case len(r.varies) > 0:
		return fmt.Errorf("what varies stands before no block")
	default:
		r.paragraph += "\n"
	}
	return nil
}

// begin begins a block.
func (r *reader) begin(n int, kind string) error {
	s := step{line: n}
	switch kind {
	case "go":
		paragraphs := strings.Split(strings.TrimSpace(r.paragraph), "\n\n")
		m := saved.FindStringSubmatch(paragraphs[len(paragraphs)-1])
		if m == nil {
			return fmt.Errorf("the paragraph before does not say where to save the code")
		}
		s.file, s.replaces = m[2], m[1] == "Replace"
	case "console":
	default:
		return fmt.Errorf("a block of %q is not run", kind)
	}
	r.fence, r.steps = kind, append(r.steps, s)
	return nil
}

// console reads a line of a session in a shell.
func (r *reader) console(n int, line string) error {
	s := &r.steps[len(r.steps)-1]
	if command, ok := strings.CutPrefix(line, "$ "); ok {
		s.typed = append(s.typed, typed{line: n, command: command, varies: r.varies})
		return nil
	}
	if len(s.typed) == 0 {
		return fmt.Errorf("output before any command")
	}
	s.typed[len(s.typed)-1].prints += line + "\n"
	return nil
}

// same reports whether what was printed is what the page shows.
func (c typed) same(printed string) bool { return c.plain(printed) == c.plain(c.prints) }

// plain is text without what varies and what nobody sees.
func (c typed) plain(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	text = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	for _, v := range c.varies {
		text = v.ReplaceAllLiteralString(text, "…")
	}
	return text
}
