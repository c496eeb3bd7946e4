//go:build !unix

package upstream

// looks says that quiet cannot tell, without which there are no wires.
const looks = false

func (l *wire) quiet() bool { return false }
