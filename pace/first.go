package pace

// first bounds the first flight of an Adaptive: what is sent before anything is
// known of the limit. Ten workers that wake together on an exhausted quota shall
// cost one refusal, not ten; but an answer that is long in coming, a stream or a
// connection that hangs, is no refusal, and holds back the others for a while
// only. State is of fixed size, as while the gate is shut nothing starts: patience
// after the last start, all that is in flight has been out as long.
type first struct {
	open    bool    // for good
	quiet   int     // in flight, and not refused in time
	until   float64 // those of them started no later than this
	slowest float64 // answer so far, in seconds
}

const (
	minQuiet = 1.0  // seconds without an answer after which a request counts as accepted
	maxQuiet = 10.0 // however slow the answers are
)

// patience is after how many seconds a request without an answer counts as
// accepted.
func (f *first) patience() float64 { return min(max(minQuiet, 2*f.slowest), maxQuiet) }

// shut reports whether none may start beside flying others, while accepted have
// been served: no more are in flight than half of those, plus one.
func (f *first) shut(flying int, accepted float64) bool {
	flying -= f.quiet
	return !f.open && flying >= 1 && float64(flying) > (accepted+float64(f.quiet)+1)/2
}

// start notes a start at s, the last one before having been at last.
func (f *first) start(s, last float64, flying int) {
	if !f.open && flying > 0 && s-last >= f.patience() {
		f.quiet, f.until = flying, last
	}
}

// ended notes the end of a request.
func (f *first) ended(s, sent float64, answered bool) {
	if f.quiet > 0 && sent <= f.until {
		f.quiet--
	}
	if answered {
		f.slowest = max(f.slowest, s-sent)
	}
}
