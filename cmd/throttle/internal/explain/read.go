package explain

import (
	"bytes"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// answer is an HTTP response as it came over the wire.
type answer struct {
	host, preset string // as comments above it say
	status       int
	line         string // of the status
	fields       []headerField
	body         []byte
	skipped      int // answers before the last
}

// headerField is one line of a head.
type headerField struct{ name, value string }

// readAnswer reads the last of the answers in a text: curl -iL prints those of
// redirects and proxies before it. Lines end in CRLF or LF. Comments may stand
// above, and a status that is not zero stands for a status line.
func readAnswer(text []byte, status int) (a answer, err error) {
	text = unmarked(bytes.TrimPrefix(text, []byte("\ufeff"))) // editors of Windows put it there
	lines := lineReader{rest: text}
	for {
		line, ok := lines.next()
		if comment, is := strings.CutPrefix(line, "#"); ok && is {
			a.comment(strings.TrimSpace(comment))
			continue
		}
		if ok && strings.TrimSpace(line) == "" {
			continue
		}
		if !ok {
			return a, usage.Error("explain: standard input is empty; want an HTTP response, such as curl -i prints")
		}
		if err := a.readHead(&lines, line, status); err != nil {
			return a, err
		}
		if !bytes.HasPrefix(lines.rest, []byte("HTTP/")) {
			a.body = a.unchunked(lines.rest)
			return a, nil
		}
		a.skipped++
	}
}

// unmarked returns the last answer in what 'curl -v' prints, without the marks
// at the beginnings of its lines, and the comments above; other text as it is.
// What curl says itself, and the request, is left out.
func unmarked(text []byte) []byte {
	last := bytes.LastIndex(append([]byte("\n"), text...), []byte("\n< HTTP/"))
	if last < 0 {
		return text
	}
	var out bytes.Buffer
	inBody := false
	keep := func(line []byte, above bool) {
		bare := bytes.TrimRight(line, "\r\n")
		switch {
		case above && !bytes.HasPrefix(line, []byte("#")):
		case above:
			out.Write(line)
		case !inBody && bytes.HasPrefix(line, []byte("<")):
			out.Write(bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("<")), []byte(" ")))
			inBody = len(bytes.TrimSpace(bare)) == 1
		case inBody && !curlSays(bare):
			out.Write(line)
		}
	}
	for line := range bytes.Lines(text[:last]) {
		keep(line, true)
	}
	for line := range bytes.Lines(text[last:]) {
		keep(line, false)
	}
	return out.Bytes()
}

// curlSays reports whether a line after a head is curl's own: about the data or
// the connection.
func curlSays(line []byte) bool {
	for _, begins := range []string{"* Connection #", "* Closing connection", "* Excess found", "* TLS", "* Curl_", "{ [", "} ["} {
		if bytes.HasPrefix(line, []byte(begins)) {
			return true
		}
	}
	return bytes.HasPrefix(line, []byte("  % Total")) || bytes.HasPrefix(line, []byte("                                 Dload"))
}

// unchunked is a body without the lengths of its chunks, which are there if it
// was taken off the wire and gone if curl printed it.
func (a *answer) unchunked(body []byte) []byte {
	if !strings.EqualFold(a.field("Transfer-Encoding"), "chunked") {
		return body
	}
	whole, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
	if err != nil {
		return body
	}
	return whole
}

func (a *answer) comment(text string) {
	if host, ok := strings.CutPrefix(text, "host: "); ok {
		a.host = host
	}
	if preset, ok := strings.CutPrefix(text, "preset: "); ok {
		a.preset = preset
	}
}

// readHead reads a status line and the fields up to an empty line or the end.
func (a *answer) readHead(lines *lineReader, first string, status int) error {
	a.fields = nil
	var ok bool
	if a.status, ok = statusOf(first); ok {
		a.line = strings.TrimSpace(first)
		first, ok = lines.next()
	} else if ok = status != 0; ok {
		a.status, a.line = status, strconv.Itoa(status)
	} else {
		return usage.Errorf("explain: line %d: %s is not a status line; want one such as 'HTTP/1.1 429 Too Many Requests', or say -status 429", lines.number, words.Quote(first))
	}
	for ; ok && first != ""; first, ok = lines.next() {
		if err := a.readField(first, lines.number); err != nil {
			return err
		}
	}
	return nil
}

// readField reads one line of a head, or the rest of the one before.
func (a *answer) readField(line string, number int) error {
	if n := len(a.fields); n > 0 && (line[0] == ' ' || line[0] == '\t') {
		a.fields[n-1].value += " " + strings.TrimSpace(line)
		return nil
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return usage.Errorf("explain: line %d: %s is not a header field; want 'Name: value', or an empty line before the body", number, words.Quote(line))
	}
	a.fields = append(a.fields, headerField{name, strings.TrimSpace(value)})
	return nil
}

// statusOf reads a status line: HTTP/2 429, or HTTP/1.1 429 Too Many Requests.
func statusOf(line string) (status int, ok bool) {
	parts := strings.Fields(line)
	if len(parts) < 2 || !strings.HasPrefix(parts[0], "HTTP/") {
		return 0, false
	}
	status, err := strconv.Atoi(parts[1])
	return status, err == nil && status >= 100 && status <= 999
}

// lineReader cuts a text into lines.
type lineReader struct {
	rest   []byte
	number int // of the line that was read last
}

func (l *lineReader) next() (line string, ok bool) {
	if len(l.rest) == 0 {
		return "", false
	}
	text, rest, _ := bytes.Cut(l.rest, []byte("\n"))
	l.rest = rest
	l.number++
	return strings.TrimSuffix(string(text), "\r"), true
}

// field returns the values of a field, joined as package signal wants them.
func (a *answer) field(name string) string {
	var values []string
	for _, f := range a.fields {
		if strings.EqualFold(f.name, name) {
			values = append(values, f.value)
		}
	}
	if len(values) > 1 && !joins(name) {
		values = values[:1]
	}
	return strings.Join(values, ", ")
}

// joins reports whether all lines of a field count, and not the first alone.
func joins(name string) bool {
	for _, all := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
		if strings.EqualFold(name, all) {
			return true
		}
	}
	return false
}

// spelled is the name of a field as the answer spells it.
func (a *answer) spelled(name string) string {
	for _, f := range a.fields {
		if strings.EqualFold(f.name, name) {
			return f.name
		}
	}
	return name
}
