package throttleredis

import (
	"fmt"

	"github.com/throttle-go/throttle/limit"
)

// The tags of an answer, the state of one key before the Take, as the scripts
// write it: a tag, then integers of seven bytes.
const (
	answerEmpty   = iota
	answerPair    // T and N of a State
	answerTriple  // T, N and P
	answerEntries // of a Log or Slots: two entries
	answerOther   // written under another limit: the value as it is kept
	answerLate    // the clock is beyond the calendar windows that were sent
	answerBad     // what is kept is no state: what is wrong, see flaws
)

// The flaws of a value, as in long.lua.
const (
	flawType = iota + 1
	flawMalformed
	flawFormat
)

// unreadable returns the error of an ask whose key has a flaw.
func unreadable(fence string, a *limit.Ask, flaw byte) error {
	problem := "holds what this package has not written: delete it, or use another Prefix"
	switch flaw {
	case flawType:
		problem = "is of another type than a string, so something else has written it: delete it, or use another Prefix"
	case flawFormat:
		problem = "holds a state in the format of another version of this package: upgrade this process, or delete it if something else has written it"
	}
	return &Error{Err: fmt.Errorf("the key %.100q %s; its name in Redis is %.300q", a.Key, problem, keyName(fence, a.Key, a.Limit.Kind))}
}

// read reads the states before the Take from a reply that answers all of r.
func (r *request) read(reply *reply) {
	r.now = reply.now
	rest := reply.answers
	for i := range r.items {
		if it := &r.items[i]; it.limit != nil {
			n := answerLen(rest)
			it.read(rest[:n])
			rest = rest[n:]
		}
	}
}

// read reads one answer.
func (it *item) read(answer string) {
	switch body := answer[1:]; answer[0] {
	case answerPair:
		it.state = limit.State{T: intAt(body, 0), N: intAt(body, 1)}
	case answerTriple:
		it.state = limit.State{T: intAt(body, 0), N: intAt(body, 1), P: intAt(body, 2)}
	case answerEntries:
		for k := range it.entries {
			it.entries[k] = entry{at: intAt(body[1:], 2*k), n: intAt(body[1:], 2*k+1)}
		}
	case answerOther:
		it.state = it.carried.state
	}
}

// answerLen returns the length of the answer that b begins with, or zero if
// there is none.
func answerLen(b string) int {
	n := 1
	switch {
	case len(b) == 0:
		return 0
	case b[0] == answerPair:
		n += 14
	case b[0] == answerTriple:
		n += 21
	case b[0] == answerEntries:
		n += 1 + 28
	case b[0] == answerOther:
		if len(b) < 5 {
			return 0
		}
		n += 4 + (int(b[1]) | int(b[2])<<8 | int(b[3])<<16 | int(b[4])<<24)
	case b[0] == answerBad:
		n++
	case b[0] > answerBad:
		return 0
	}
	if len(b) < n {
		return 0
	}
	return n
}

// intAt returns the i-th integer of seven bytes.
func intAt(b string, i int) (n int64) {
	for k := 6; k >= 0; k-- {
		n = n<<8 | int64(b[7*i+k])
	}
	return n
}
