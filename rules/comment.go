package rules

import "bytes"

// uncomment returns text of the same length with comments, // to the end of the
// line and /* to */, and a byte order mark at its beginning made blanks. flaw is
// where a comment begins that has no end, or -1. Text without any is returned as
// it is.
func uncomment(text []byte) (plain []byte, flaw int) {
	plain = text
	blank := func(from, to int) {
		if &plain[0] == &text[0] {
			plain = bytes.Clone(text)
		}
		for i := from; i < to; i++ {
			if plain[i] != '\n' && plain[i] != '\r' {
				plain[i] = ' '
			}
		}
	}
	i := 0
	if bytes.HasPrefix(text, byteOrderMark) {
		i = len(byteOrderMark)
		blank(0, i)
	}
	for i < len(text) {
		rest := text[i:]
		switch {
		case rest[0] == '"':
			i += quoted(rest)
			continue
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			blank(i, i+end)
			i += end
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return plain, i
			}
			blank(i, i+end+4)
			i += end + 4
			continue
		}
		i++
	}
	return plain, -1
}

var byteOrderMark = []byte("\ufeff")

// quoted returns the length of the JSON text that begins with a quote.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
