// Package glob matches texts with patterns in which * stands for any text.
package glob

import "strings"

// A Pattern is a pattern cut at its stars: the first and the last piece stand at
// the ends, those between anywhere in order. Taking each as far left as it goes
// finds a match if there is one, so the work grows with the length of the text
// and nothing is tried twice.
type Pattern []string

// Of returns the Pattern of a text with stars.
func Of(pattern string) Pattern { return strings.Split(pattern, "*") }

// Exact reports whether p matches one text only.
func (p Pattern) Exact() bool { return len(p) == 1 }

// Match reports whether p matches the whole of text.
func (p Pattern) Match(text string) bool {
	last := len(p) - 1
	if last == 0 {
		return text == p[0]
	}
	text, ok := strings.CutPrefix(text, p[0])
	if !ok {
		return false
	}
	for _, piece := range p[1:last] {
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return strings.HasSuffix(text, p[last])
}
