//go:build race

package memory_test

// raced is whether the race detector is on, which makes everything ten times
// slower.
const raced = true
