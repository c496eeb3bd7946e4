package pace

import "math"

// first bounds the first flight of an Adaptive: what is sent before anything is
// known of the limit. Ten workers that wake together on an exhausted quota are
// not to be refused ten times; but an answer that is long in coming, a stream or a
// connection that hangs, is no refusal, and holds back the others for a moment
// only. As many are in flight as have been served, and beyond those one, two,
// four and eight, a doubling every 0.35 s, and then a doubling every 2 s.
type first struct {
	open  bool    // for good
	began float64 // when the flight that is out began
}

const (
	doubling = 0.35 // seconds, up to
	early    = 7.0  // in flight beyond what has been served, and then
	slower   = 2.0  // seconds
)

// next is the earliest instant for the next start beside flying others, when
// so many have been served.
func (f *first) next(flying int, served float64) float64 {
	switch beyond := float64(flying) - served; {
	case beyond <= 0:
		return 0
	case beyond <= early:
		return f.began + doubling*math.Log2(beyond+1)
	default:
		return f.began + doubling*math.Log2(early+1) + slower*math.Log2((beyond+1)/(early+1))
	}
}
