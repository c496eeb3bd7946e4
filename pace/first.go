package pace

import "math"

// first bounds the first flight of an Adaptive: what is sent before anything is
// known of the limit. Ten workers that wake together on an exhausted quota shall
// cost one refusal, not ten; but an answer that is long in coming, a stream or a
// connection that hangs, is no refusal, and holds back the others for a moment
// only. The flight doubles with each round of answers, or each doubling.
type first struct {
	open  bool    // for good
	began float64 // when the flight that is out began
}


// next is the earliest instant for the next start beside flying others, when
// so many have been served.
func (f *first) next(flying int, served float64) float64 {
	if float64(flying) <= served {
		return 0
	}
	return f.began + doubling*math.Log2(float64(flying)+1)
}
