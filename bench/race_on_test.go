//go:build race

package bench

// raced is whether the race detector is on, which makes everything ten times
// slower.
const raced = true
