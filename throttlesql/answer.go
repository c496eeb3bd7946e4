package throttlesql

import (
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/limit"
)

// readStates reads the states that take.sql found, four numbers for each key that
// was sent: the T, N and P of a State and a zero.
//
// Of a log or slots they are two entries, as many as package limit needs to
// decide alike: what was taken up to an edge, and what after it. The edge is the
// last that must leave before the Take passes, or what is the newest after giving
// back.
func (r *request) readStates(reply *reply) error {
	list := elements(reply.states)
	for _, i := range r.sent {
		var n [4]int64
		if !list.read(n[:]) {
			return errReply
		}
		it := &r.items[i]
		it.state = limit.State{T: n[0], N: n[1], P: n[2]}
		it.entries = [2]entry{{at: n[0], n: n[1]}, {at: n[2], n: n[3]}}
	}
	return nil
}

// elements are those of an array of numbers that are still to be read.
type elements string

// read reads the next numbers, or returns false.
func (e *elements) read(n []int64) (ok bool) {
	rest := strings.Trim(string(*e), "{}")
	for i := range n {
		var text string
		var err error
		text, rest, _ = strings.Cut(rest, ",")
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return false
		}
	}
	*e = elements(rest)
	return true
}
