package signal

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Bounds on one field. Beyond them it counts as malformed and is ignored: no
// honest server comes near.
const (
	maxField   = 4096 // bytes
	maxMembers = 32   // of a list
	maxParams  = 16   // of a member
	maxNumber  = 64   // bytes
)

// maxCount is the largest Integer of a structured field (RFC 9651, 3.3.1).
const maxCount = 999_999_999_999_999

// member is one member of a structured field: an Item with its parameters, in
// a List, or under a key, in a Dictionary. All values are kept as text.
type member struct {
	key    string // empty in a List
	value  string
	bare   bool // neither quotes nor colons around value
	params []param
}

type param struct{ key, value string }

// param is the value of a parameter, empty if it is absent. The last of that
// name counts.
func (m member) param(key string) string {
	for i := len(m.params) - 1; i >= 0; i-- {
		if m.params[i].key == key {
			return m.params[i].value
		}
	}
	return ""
}

// parse reads a List or a Dictionary of Items (RFC 9651), with four freedoms:
// a Token may stand for a String, keys may be of any case, a number may have any
// number of digits, and a second String before the parameters takes the place of the first,
// as Hugging Face names a policy: "fixed window";"api";q=500. Inner lists, which no known limit uses, are
// malformed here. The result is nil if anything is malformed.
func parse(field string) []member {
	if len(field) > maxField {
		return nil
	}
	s := scanner{rest: field}
	s.spaces()
	var all []member
	for s.rest != "" {
		m, ok := s.member()
		if !ok || len(all) == maxMembers {
			return nil
		}
		all = append(all, m)
		s.spaces()
		if s.rest == "" {
			return oneKind(all)
		}
		if !s.eat(',') {
			return nil
		}
		s.spaces()
	}
	return nil // empty, or a comma with nothing behind it
}

// oneKind makes keys of the bare words in a Dictionary, whose value is true
// where none is stated, and returns nil for what is half a List.
func oneKind(all []member) []member {
	keyed := false
	for _, m := range all {
		keyed = keyed || m.key != ""
	}
	for i, m := range all {
		if !keyed || m.key != "" {
			continue
		}
		if !m.bare || !isKey(m.value) {
			return nil
		}
		all[i].key, all[i].value = m.value, "?1"
	}
	return all
}

// scanner cuts a field into its parts, from the front.
type scanner struct{ rest string }

func (s *scanner) spaces() { s.rest = strings.TrimLeft(s.rest, " \t") }

func (s *scanner) eat(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// member is an item and its parameters: value *( ";" key [ "=" value ] ), or
// the same behind key "=".
func (s *scanner) member() (m member, ok bool) {
	m.bare = s.rest != "" && s.rest[0] != '"' && s.rest[0] != ':'
	named := strings.HasPrefix(s.rest, `"`)
	if m.value, ok = s.value(); !ok {
		return m, false
	}
	if s.eat('=') {
		m.key = m.value
		if !m.bare || !isKey(m.key) {
			return m, false
		}
		if m.value, ok = s.value(); !ok {
			return m, false
		}
	}
	for ; s.eat(';'); named = false {
		s.spaces()
		if named && s.eat('"') {
			if m.value, ok = s.quoted(); !ok {
				return m, false
			}
			continue
		}
		p := param{key: s.word(), value: "?1"} // a bare key means true
		if s.eat('=') {
			if p.value, ok = s.value(); !ok {
				return m, false
			}
		}
		if !isKey(p.key) || len(m.params) == maxParams {
			return m, false
		}
		m.params = append(m.params, p)
	}
	return m, true
}

// value is a String without its quotes, a Byte Sequence without its colons
// (not decoded: nothing looks at it), or a word.
func (s *scanner) value() (value string, ok bool) {
	if s.eat('"') {
		return s.quoted()
	}
	if s.eat(':') {
		value, s.rest, ok = strings.Cut(s.rest, ":")
		return value, ok
	}
	if strings.HasPrefix(s.rest, `%"`) { // a Display String, not decoded either
		s.rest = s.rest[2:]
		return s.quoted()
	}
	value = s.word()
	return value, isBareItem(value)
}

// isKey tells a key: letters first, or an asterisk.
func isKey(word string) bool {
	if word == "" || !isLetter(word[0]) && word[0] != '*' {
		return false
	}
	for i := range len(word) {
		if c := word[i]; !isLetter(c) && (c < '0' || c > '9') && strings.IndexByte("_-.*", c) < 0 {
			return false
		}
	}
	return true
}

// isBareItem tells a Token, a number, a Boolean or a Date.
func isBareItem(word string) bool {
	if word == "" {
		return false
	}
	switch c := word[0]; {
	case c == '?':
		return word == "?0" || word == "?1"
	case c == '@':
		_, ok := decimal(word[1:])
		return ok
	case isLetter(c) || c == '*':
		return strings.IndexByte(word, '?') < 0 && strings.IndexByte(word, '@') < 0
	}
	_, ok := decimal(word)
	return ok
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// word is a run of the characters that Tokens, numbers, Dates and Booleans are
// made of.
func (s *scanner) word() string {
	i := 0
	for i < len(s.rest) && isWord(s.rest[i]) {
		i++
	}
	word := s.rest[:i]
	s.rest = s.rest[i:]
	return word
}

func isWord(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~:/?@", c) >= 0
}

// quoted is the rest of a String: printable ASCII in which a backslash stands
// before a quote or another backslash.
func (s *scanner) quoted() (value string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s.rest); i++ {
		c := s.rest[i]
		if c == '"' {
			s.rest = s.rest[i+1:]
			return b.String(), true
		}
		if c == '\\' {
			if i++; i == len(s.rest) {
				return "", false
			}
			if c = s.rest[i]; c != '"' && c != '\\' {
				return "", false
			}
		}
		if c < ' ' || c > '~' {
			return "", false
		}
		b.WriteByte(c)
	}
	return "", false
}

// decimal reads a plain number: a sign, digits, a point. What ParseFloat would
// take beyond that (exponents, hexadecimals, infinities) is malformed here.
func decimal(text string) (v float64, ok bool) {
	if text == "" || len(text) > maxNumber { // an error of ParseFloat costs two allocations
		return 0, false
	}
	unsigned := strings.TrimPrefix(text, "-")
	for _, c := range unsigned {
		if (c < '0' || c > '9') && c != '.' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// count reads a number of requests. Some servers send fractions of one, which
// are as good as nothing.
func count(text string) pace.Opt[int64] {
	v, ok := decimal(text)
	if !ok || v < 0 || v > maxCount {
		return pace.Opt[int64]{}
	}
	return pace.Some(int64(v))
}

// seconds reads a wait in seconds, decimals allowed.
func seconds(text string) pace.Opt[time.Duration] {
	v, ok := decimal(text)
	if !ok {
		return pace.Opt[time.Duration]{}
	}
	return believed(pace.Some(bounded(v * 1e9)))
}

// nanoseconds is a wait within the bounds of what is believed.
func nanoseconds(v float64) time.Duration {
	return believe(time.Duration(min(max(math.Round(v), 0), float64(2*MaxAfter))))
}

// window reads the length of a window in seconds; one that is empty, or longer
// than any calendar's, is malformed.
func window(text string) pace.Opt[time.Duration] {
	v, ok := decimal(text)
	if !ok || v <= 0 || v > maxWindow.Seconds() {
		return pace.Opt[time.Duration]{}
	}
	return pace.Some(time.Duration(math.Ceil(v * 1e9)))
}
