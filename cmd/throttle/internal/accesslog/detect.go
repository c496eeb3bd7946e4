package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Formats names what ParseFormat knows, for help.
const Formats = "envoy, nginx, combined, common, vhost, json, csv, re:EXPRESSION, or a text with $NAME as the log_format of nginx"

// formatOf returns the format of a log that begins with head, which is detected if
// name is empty. The error has neither the file nor a line.
func formatOf(name string, given Fields, head string) (*Format, error) {
	first, _, _ := strings.Cut(head, "\n")
	switch {
	case name == "":
		return detect(given, head)
	case name == "json":
		return newObject(given), nil
	case name == "csv":
		return newColumns(first, given)
	case strings.HasPrefix(name, "re:"):
		return newPattern(name[3:], given)
	case strings.Contains(name, "$"):
		return newTemplate("as given", name, given)
	}
	for _, t := range templates {
		if t.name == name {
			return newTemplate(name, t.text, given)
		}
	}
	return nil, fmt.Errorf("format %s is not known; write %s", quoted(name), Formats)
}

// CheckFormat reports whether a format is one, and the fields can be those of it, as far
// as that can be said without a log.
func CheckFormat(name string, given Fields) error {
	for _, g := range given {
		if len(g.Source) > mostSource {
			return fmt.Errorf("field %s of %d bytes; at most %d", quoted(g.Source), len(g.Source), mostSource)
		}
	}
	if name == "" || name == "csv" {
		return nil
	}
	_, err := formatOf(name, given, "")
	return err
}

// detect returns the format that reads most of the lines of head, and at least half of
// them.
func detect(given Fields, head string) (*Format, error) {
	lines := someLines(head)
	var best *Format
	most := 0
	try := func(f *Format, err error) {
		if err != nil {
			return
		}
		if n := f.reads(lines); n > most {
			best, most = f, n
		}
	}
	try(newObject(given), nil)
	for _, t := range templates {
		try(newTemplate(t.name, t.text, given))
	}
	if best != nil && 2*most >= len(lines) {
		return best, nil
	}
	if len(lines) > 0 && strings.ContainsAny(lines[0], ",;\t") {
		if f, err := newColumns(lines[0], given); err == nil {
			return f, nil
		}
	}
	return nil, unknown(given, head)
}

// unknown is why no format was detected: that it is known, but for the given fields, or not.
func unknown(given Fields, head string) error {
	if len(given) > 0 {
		if f, err := detect(nil, head); err == nil {
			if _, err := formatOf(f.Name, given, head); err != nil {
				return fmt.Errorf("as format %s: %w", f.Name, err)
			}
		}
	}
	if why := objectFlaw(given, someLines(head)); why != "" {
		return fmt.Errorf("as format json: %s", why)
	}
	return errors.New("the format is not known; name it by -format: " + Formats)
}

// objectFlaw is what is wrong with the first of lines that are objects of JSON, or empty
// where most of them are not: of a program's own log only the name of the time is unknown.
func objectFlaw(given Fields, lines []string) string {
	objects := 0
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") && json.Valid([]byte(line)) {
			objects++
		}
	}
	if 2*objects <= len(lines) {
		return ""
	}
	f := newObject(given)
	s := f.setter()
	for _, line := range lines {
		if why := f.parse(line, &s, new(Entry)); why != "" && json.Valid([]byte(line)) {
			return why
		}
	}
	return ""
}

// someLines returns up to 100 lines that are not empty, the last of which may be cut off
// in head and is left out then.
func someLines(head string) (lines []string) {
	for len(lines) < 100 {
		line, rest, more := strings.Cut(head, "\n")
		if !more && len(lines) > 0 && len(head) == headSize {
			break
		}
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			lines = append(lines, line)
		}
		if head = rest; !more {
			break
		}
	}
	return lines
}

// reads returns how many lines f can read.
func (f *Format) reads(lines []string) (n int) {
	s := f.setter()
	for _, line := range lines {
		var e Entry
		if f.parse(line, &s, &e) == "" && !e.Time.IsZero() {
			n++
		}
	}
	return n
}
