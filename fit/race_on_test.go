//go:build race

package fit_test

// raced is whether the race detector is on, which makes everything ten times
// slower.
const raced = true
