package rules

import "strings"

// A glob is a pattern cut at its stars: the first and the last piece stand at
// the ends, those between anywhere in order. Taking each as far left as it goes
// finds a match if there is one, so the work grows with the length of the text
// and nothing is tried twice.
type glob []string

func globOf(pattern string) glob { return strings.Split(pattern, "*") }

// exact reports whether g matches one text only.
func (g glob) exact() bool { return len(g) == 1 }

func (g glob) match(text string) bool {
	last := len(g) - 1
	if last == 0 {
		return text == g[0]
	}
	text, ok := strings.CutPrefix(text, g[0])
	if !ok {
		return false
	}
	for _, piece := range g[1:last] {
		i := strings.Index(text, piece)
		if i < 0 {
			return false
		}
		text = text[i+len(piece):]
	}
	return strings.HasSuffix(text, g[last])
}

// anyOf reports whether one of the patterns matches, or there is none.
func anyOf(patterns []glob, text string) bool {
	for _, g := range patterns {
		if g.match(text) {
			return true
		}
	}
	return len(patterns) == 0
}
