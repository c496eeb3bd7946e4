package signal

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lookup is the text at a path into a body, or "" if there is none: the value
// of a string, a number or a Boolean, of an object or array "…". It is cut to
// maxLook bytes, and its own bytes, so that it does not keep the body.
//
// The body may be cut off, and need not be well-formed behind what is looked
// for: half an answer is better than none. It is not decoded, so that a hostile
// one costs no memory: time is linear in its length for each * in the path.
func lookup(body []byte, path string) string {
	if tag, ok := strings.CutPrefix(path, "<"); ok {
		return element(body, tag)
	}
	b := jsonText(body)
	i, ok := b.find(0, path)
	if !ok {
		return ""
	}
	return b.scalar(i)
}

// element is the text of the first XML element of that name; tag ends in >.
func element(body []byte, tag string) string {
	for rest := body; ; {
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			return ""
		}
		rest = rest[i+1:]
		if len(rest) < len(tag) || string(rest[:len(tag)]) != tag {
			continue
		}
		text := rest[len(tag):]
		end := bytes.IndexByte(text, '<')
		if end < 0 {
			return ""
		}
		return string(bytes.TrimSpace(text[:min(end, maxLook)]))
	}
}

// maxLook is how many bytes of a value rules look at.
const maxLook = 512

// jsonText is JSON that was not checked.
type jsonText []byte

// at is the byte at i, or 0 beyond the end.
func (b jsonText) at(i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

func (b jsonText) space(i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// find is where the first value at a path begins, seen from the value at i.
func (b jsonText) find(i int, path string) (at int, ok bool) {
	b.each(i, path, func(i int) bool {
		at, ok = i, true
		return true
	})
	return at, ok
}

// each calls visit with where each value at a path begins, seen from the value at i,
// until visit returns true; then so does each. It calls itself as often as the path has
// steps, however deep the JSON is.
func (b jsonText) each(i int, path string, visit func(at int) bool) bool {
	i = b.space(i)
	if path == "" {
		return i < len(b) && visit(i)
	}
	step, rest, _ := strings.Cut(path, ".")
	inObject := b.at(i) == '{'
	if each := step == "[]"; inObject && each || !inObject && (b.at(i) != '[' || !each && step != "*") {
		return false
	}
	for i = b.space(i + 1); i < len(b) && b[i] != '}' && b[i] != ']'; i = b.space(i + 1) {
		here := !inObject || step == "*"
		if inObject {
			end := b.skip(i)
			here = here || string(bytes.Trim(b[i:end], `"`)) == step
			if i = b.space(end); b.at(i) != ':' {
				return false
			}
			i++
		}
		if here {
			if stop := b.each(i, rest, visit); stop || inObject && step != "*" {
				return stop
			}
		}
		if i = b.space(b.skip(b.space(i))); b.at(i) != ',' {
			return false
		}
	}
	return false
}

// hasData reports whether the data of an answer to GraphQL holds anything: so
// much of the request has been executed, whatever its errors say.
func (b jsonText) hasData() bool {
	i, ok := b.find(0, "data")
	if !ok || b[i] != '{' {
		return ok && b.scalar(i) != ""
	}
	for i = b.space(i + 1); i < len(b) && b[i] != '}'; i = b.space(i + 1) {
		i = b.space(b.skip(i))
		if b.at(i) != ':' {
			return true // torn: better not asked again
		}
		i = b.space(i + 1)
		if b.scalar(i) != "" {
			return true
		}
		if i = b.space(b.skip(i)); b.at(i) != ',' {
			return false
		}
	}
	return false
}

// skip is the end of the value at i.
func (b jsonText) skip(i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = b.skipString(i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(b) && strings.IndexByte("\"{}[],: \n\r\t", b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

func (b jsonText) skipString(i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// scalar is the text of the value at i; null is nothing.
func (b jsonText) scalar(i int) string {
	switch b.at(i) {
	case '"':
		return b.quoted(i + 1)
	case '{', '[':
		return "…"
	}
	text := string(b[i:min(b.skip(i), i+maxLook)])
	if text == "null" {
		return ""
	}
	return text
}

// escapes are the letters that stand behind a backslash, and what they mean.
const escapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// quoted is the string whose first letter is at i.
func (b jsonText) quoted(i int) string {
	var text []byte
	for i < len(b) && b[i] != '"' && len(text) < maxLook {
		if b[i] != '\\' {
			text = append(text, b[i])
			i++
			continue
		}
		if b.at(i+1) == 'u' {
			var r rune
			r, i = b.unicode(i)
			text = utf8.AppendRune(text, r)
			continue
		}
		for k := 0; k < len(escapes); k += 2 {
			if escapes[k] == b.at(i+1) {
				text = append(text, escapes[k+1])
			}
		}
		i += 2
	}
	return strings.ToValidUTF8(string(text[:min(len(text), maxLook)]), "")
}

// unicode is the rune of \uXXXX at i, of two if they are a pair, and the end.
func (b jsonText) unicode(i int) (r rune, end int) {
	r = b.hex(i)
	if r&^0x3ff == 0xd800 && b.at(i+6) == '\\' && b.at(i+7) == 'u' {
		if low := b.hex(i + 6); low&^0x3ff == 0xdc00 {
			return 0x10000 + (r&0x3ff)<<10 + low&0x3ff, i + 12
		}
	}
	return r, i + 6 // AppendRune makes U+FFFD of half a pair
}

func (b jsonText) hex(i int) rune {
	if i+6 > len(b) {
		return utf8.RuneError
	}
	v, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}
