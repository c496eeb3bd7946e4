package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// The formats of text that are known by name. $NAME is a part of the line, as in the
// log_format of nginx.
const (
	common   = `$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`
	combined = common + ` "$http_referer" "$http_user_agent"`
	// main is that of the nginx.conf that comes with it.
	main = combined + ` "$http_x_forwarded_for"`
	// envoy is Envoy's own.
	envoy = `[$start_time] "$method $path $protocol" $response_code $response_flags $bytes_received $bytes_sent $duration $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$authority" "$upstream_host"`
)

// templates are in the order in which they are tried: the most specific first.
var templates = []struct{ name, text string }{
	{"envoy", envoy},
	{"nginx", main},
	{"combined", combined},
	{"common", common},
	{"vhost", "$server_name " + combined},
}

// template is a parser of lines of text: fields with fixed text between them.
type template struct {
	begin  string
	pieces []piece
}

// piece is a field and the text that ends it; "" is the end of the line.
type piece struct {
	name   string
	fields []field
	end    string
}

func newTemplate(name, text string, given Fields) (*Format, error) {
	t := newTable(given)
	p := &template{}
	if err := p.cut(text); err != nil {
		return nil, err
	}
	has := map[string]bool{}
	var fields [][]field
	for i := range p.pieces {
		one := &p.pieces[i]
		one.fields = t.find(one.name)
		has[strings.ToLower(one.name)] = true
		fields = append(fields, one.fields)
	}
	switch missing := t.missing(given, func(name string) bool { return has[name] }); {
	case missing != "":
		return nil, fmt.Errorf("the format has no $%s", missing)
	case !timed(fields):
		return nil, fmt.Errorf("the format has no time; write $time_local, $time_iso8601 or $msec")
	}
	return &Format{Name: name, Names: t.names, parser: p, given: t.given}, nil
}

// cut cuts a text into pieces.
func (p *template) cut(text string) error {
	p.begin, text, _ = cutVariable(text)
	for text != "" {
		var one piece
		n := 1
		for n < len(text) && isNameByte(text[n]) {
			n++
		}
		one.name, text = text[1:n], text[n:]
		if one.name == "" {
			return errors.New("a $ without a name; write $NAME, as in $remote_addr")
		}
		var more bool
		one.end, text, more = cutVariable(text)
		if more && one.end == "" {
			return fmt.Errorf("nothing between $%s and the next $; nobody could tell them apart", one.name)
		}
		p.pieces = append(p.pieces, one)
	}
	return nil
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// cutVariable cuts text before its first $.
func cutVariable(text string) (before, rest string, more bool) {
	if i := strings.IndexByte(text, '$'); i >= 0 {
		return text[:i], text[i:], true
	}
	return text, "", false
}

func (p *template) parse(line string, s *setter, e *Entry) (what string) {
	rest, ok := strings.CutPrefix(line, p.begin)
	if !ok {
		return "does not begin with " + quoted(p.begin)
	}
	for i := range p.pieces {
		one := &p.pieces[i]
		n, escaped := one.find(rest)
		if n < 0 {
			return "no " + quoted(one.end) + " after $" + one.name
		}
		if len(one.fields) > 0 {
			text := rest[:n]
			if escaped {
				text = unescape(text)
			}
			if what := setAll(s, e, one.fields, text); what != "" {
				return "$" + one.name + " is " + what
			}
		}
		rest = rest[n+len(one.end):]
	}
	if rest != "" && rest[0] != ' ' { // more fields may follow
		return "more after $" + p.pieces[len(p.pieces)-1].name + ": " + quoted(rest)
	}
	return ""
}

// find returns where the piece ends in text, or -1. A quote after a backslash is part
// of the piece; escaped reports that there are backslashes.
func (one *piece) find(text string) (n int, escaped bool) {
	switch {
	case one.end == "":
		if i := strings.IndexByte(text, ' '); i >= 0 { // the last one; more fields may follow
			return i, false
		}
		return len(text), false
	case one.end[0] != '"':
		return strings.Index(text, one.end), false
	}
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '"')
		if i < 0 {
			return -1, false
		}
		if i += from; !escapedAt(text, i) && strings.HasPrefix(text[i:], one.end) {
			return i, strings.IndexByte(text[:i], '\\') >= 0
		}
		from = i + 1
	}
}

// escapedAt reports whether an odd number of backslashes stands before text[i].
func escapedAt(text string, i int) (odd bool) {
	for j := i - 1; j >= 0 && text[j] == '\\'; j-- {
		odd = !odd
	}
	return odd
}

// unescape reads \" and \\ as Apache writes them, and \x22 as nginx does.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if hex, ok := byteOf(text[i:]); ok {
			b.WriteByte(hex)
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// byteOf reads x22.
func byteOf(text string) (c byte, ok bool) {
	if len(text) < 3 || text[0] != 'x' {
		return 0, false
	}
	for _, d := range []byte(text[1:3]) {
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | d
	}
	return c, true
}
