package accesslog

import (
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
)

// Format reads the lines of one log. It is safe for concurrent use.
type Format struct {
	// Name names it in messages.
	Name string
	// Names list the values of Entry.More.
	Names []Name

	parser parser
	header bool   // the first line is none of the log
	given  uint64 // the fields that Fields name
	marked int    // how many of Fields lines may lack
}

// setter returns what sets the fields of entries.
func (f *Format) setter() setter {
	return setter{more: len(f.Names), given: f.given, seen: make([]bool, f.marked)}
}

// parse reads a line, or says what is wrong with it.
func (f *Format) parse(line string, s *setter, e *Entry) (what string) {
	s.has, s.done = 0, 0
	what = f.parser.parse(line, s, e)
	e.NoHTTP = s.has&(fieldRequest.bit()|fieldMethod.bit()) != 0 && e.Method == "" && e.Path == ""
	return what
}

// Name is a property of requests that the fields of an Entry do not have.
type Name struct {
	// Kind says what it is for.
	Kind Kind
	// Text is the name of the header field in its usual form, of the value or the cost.
	Text string
}

// Kind tells the properties that a Name may stand for.
type Kind string

// The kinds of names.
const (
	Header Kind = "header"
	Value  Kind = "value"
	Cost   Kind = "cost"
)

// parser reads a line, or says what is wrong with it.
type parser interface {
	parse(line string, s *setter, e *Entry) (what string)
}

// Fields say which part of a line is what, beyond the usual names: a source for each
// target, where a target is a field such as address, or header:NAME, value:NAME or
// cost:NAME.
type Fields []Field

// mostSource bounds the bytes of a source.
const mostSource = 64

// Field is one of Fields.
type Field struct{ Target, Source string }

// ParseFields reads TARGET=SOURCE, several separated by commas.
func ParseFields(text string) (all Fields, err error) {
	for one := range strings.SplitSeq(text, ",") {
		target, source, ok := strings.Cut(strings.TrimSpace(one), "=")
		kind, name, more := strings.Cut(target, ":")
		_, plain := named[target]
		switch k := Kind(kind); {
		case !ok || source == "":
			return nil, fmt.Errorf("%q is not TARGET=SOURCE, as in address=remote_ip", one)
		case more && name != "" && (k == Header || k == Value || k == Cost):
		case !plain || aliases[named[target]][0] != target:
			return nil, fmt.Errorf("%q is not known; write time, address, method, host, path, request, client, referer, agent, forwarded, status, bytes, header:NAME, value:NAME or cost:NAME", target)
		}
		all = append(all, Field{target, source})
	}
	return all, nil
}

// table finds the fields of a log by the names that it has for them.
type table struct {
	byName map[string][]field // in small letters
	names  []Name
	taken  map[field]bool // given by Fields, so that no other name counts
	given  uint64         // the same of those below fieldMore
}

func newTable(given Fields) *table {
	t := &table{byName: map[string][]field{}, taken: map[field]bool{}}
	for _, g := range given {
		source := strings.ToLower(g.Source)
		kind, name, more := strings.Cut(g.Target, ":")
		f := named[g.Target]
		if more {
			f = t.add(Kind(kind), name)
		} else {
			t.given |= f.bit()
		}
		t.taken[f] = true
		t.byName[source] = append(t.byName[source], f)
	}
	for name, f := range named {
		if !t.taken[f] {
			t.byName[name] = append(t.byName[name], f)
		}
	}
	return t
}

func (t *table) add(kind Kind, name string) field {
	if kind == Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
	}
	t.names = append(t.names, Name{kind, name})
	return fieldMore + field(len(t.names)-1)
}

// find returns the fields of a name. One that begins with http_ is a field of the
// header, as in nginx.
func (t *table) find(name string) []field {
	name = strings.ToLower(name)
	if all := t.byName[name]; all != nil {
		return all
	}
	if header, ok := strings.CutPrefix(name, "http_"); ok {
		f := t.add(Header, strings.ReplaceAll(header, "_", "-"))
		t.byName[name] = []field{f}
	}
	return t.byName[name]
}

// missing returns the source of a given field that the log has not, or "".
func (t *table) missing(given Fields, has func(name string) bool) string {
	for _, g := range given {
		if !has(strings.ToLower(g.Source)) {
			return g.Source
		}
	}
	return ""
}

// setAll sets all fields that a text is and that are not set yet.
func setAll(s *setter, e *Entry, fields []field, text string) (what string) {
	for _, f := range fields {
		if what := s.take(e, f, text); what != "" {
			return what
		}
	}
	return ""
}

// pattern is a parser by a regular expression.
type pattern struct {
	expression *regexp.Regexp
	fields     [][]field // of each group
}

func newPattern(text string, given Fields) (*Format, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%v", err)
	}
	t, p := newTable(given), pattern{expression: re}
	has := map[string]bool{}
	for _, name := range re.SubexpNames() {
		has[strings.ToLower(name)] = true
		p.fields = append(p.fields, t.find(name))
	}
	if !timed(p.fields) {
		return nil, fmt.Errorf("the expression has no group for the time; write (?P<time>...)")
	}
	if name := t.missing(given, func(name string) bool { return has[name] }); name != "" {
		return nil, fmt.Errorf("the expression has no group %s", name)
	}
	return &Format{Name: "re", Names: t.names, parser: &p, given: t.given}, nil
}

func (p *pattern) parse(line string, s *setter, e *Entry) (what string) {
	found := p.expression.FindStringSubmatchIndex(line)
	if found == nil {
		return "does not match the expression"
	}
	for i := 1; i < len(p.fields); i++ {
		if from := found[2*i]; from >= 0 {
			if what := setAll(s, e, p.fields[i], line[from:found[2*i+1]]); what != "" {
				return what
			}
		}
	}
	return ""
}
