package importenvoy

import "fmt"

// mostNotes bounds the notes about single places.
const mostNotes = 20

// notes are lines for people. Those of one sort that says the same everywhere are one
// line, with the first place and how many more there are.
type notes struct {
	single []string
	more   int // above mostNotes
	sorts  []sort
}

type sort struct {
	what  string
	first place
	more  int
}

// add adds a note about one place.
func (n *notes) add(at place, format string, a ...any) {
	if len(n.single) == mostNotes {
		n.more++
		return
	}
	n.single = append(n.single, at.String()+": "+fmt.Sprintf(format, a...))
}

// same adds a place to the note of its sort.
func (n *notes) same(at place, what string) {
	for i := range n.sorts {
		if n.sorts[i].what == what {
			n.sorts[i].more++
			return
		}
	}
	n.sorts = append(n.sorts, sort{what: what, first: at})
}

func (n *notes) lines() []string {
	all := n.single
	if n.more > 0 {
		all = append(all, fmt.Sprintf("and %d more like these", n.more))
	}
	for _, s := range n.sorts {
		line := s.first.String() + ": " + s.what
		if s.more > 0 {
			line += fmt.Sprintf(" (%d more)", s.more)
		}
		all = append(all, line)
	}
	return all
}
