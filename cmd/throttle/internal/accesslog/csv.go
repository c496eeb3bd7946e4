package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// columns is a parser of CSV with a line of names at its head. A record is one line.
type columns struct {
	comma  byte
	fields [][]field
}

// newColumns reads the names.
func newColumns(head string, given Fields) (*Format, error) {
	head = strings.TrimSuffix(head, "\r")
	p := &columns{comma: commaOf(head)}
	t := newTable(given)
	has := map[string]bool{}
	for rest, more := head, true; more; {
		var name string
		var ok bool
		if name, rest, more, ok = p.cell(rest); !ok {
			return nil, fmt.Errorf("the line of names has a quote that does not end")
		}
		name = strings.TrimSpace(name)
		has[strings.ToLower(name)] = true
		p.fields = append(p.fields, t.find(name))
	}
	switch missing := t.missing(given, func(name string) bool { return has[name] }); {
	case missing != "":
		return nil, fmt.Errorf("the line of names has no %s", missing)
	case !timed(p.fields):
		return nil, fmt.Errorf("the line of names has none for the time; name it by -fields time=NAME")
	}
	return &Format{Name: "csv", Names: t.names, parser: p, header: true, given: t.given}, nil
}

// commaOf returns what separates the names of a line.
func commaOf(head string) byte {
	comma := byte(',')
	for _, c := range []byte("\t;") {
		if strings.Count(head, string(c)) > strings.Count(head, string(comma)) {
			comma = c
		}
	}
	return comma
}

// timed reports whether one of the fields is the time.
func timed(all [][]field) bool {
	return slices.ContainsFunc(all, func(one []field) bool { return slices.Contains(one, fieldTime) })
}

// cell cuts off the first cell.
func (p *columns) cell(line string) (text, rest string, more, ok bool) {
	if !strings.HasPrefix(line, `"`) {
		if i := strings.IndexByte(line, p.comma); i >= 0 {
			return line[:i], line[i+1:], true, true
		}
		return line, "", false, true
	}
	doubled := false
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] != '"':
			continue
		case i+1 < len(line) && line[i+1] == '"':
			doubled = true
			i++
			continue
		}
		text, rest = line[1:i], line[i+1:]
		if doubled {
			text = strings.ReplaceAll(text, `""`, `"`)
		}
		if rest == "" {
			return text, "", false, true
		}
		return text, rest[1:], true, rest[0] == p.comma
	}
	return "", "", false, false
}

func (p *columns) parse(line string, s *setter, e *Entry) (what string) {
	rest, more, ok := line, true, true
	n := 0
	for ; more; n++ {
		var text string
		if text, rest, more, ok = p.cell(rest); !ok {
			return "a quote that does not end, at " + quoted(rest)
		}
		if n == len(p.fields) {
			return p.count()
		}
		if what := setAll(s, e, p.fields[n], text); what != "" {
			return what
		}
	}
	if n != len(p.fields) {
		return p.count()
	}
	return ""
}

func (p *columns) count() string {
	return fmt.Sprintf("not %d cells, as the line of names has", len(p.fields))
}
