//go:build race

package integration

// raced is whether the race detector is on, which makes everything slow and
// bounds on time meaningless.
const raced = true
