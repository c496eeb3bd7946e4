//go:build !race

package tutorial

// raced is whether the race detector is on.
const raced = false
