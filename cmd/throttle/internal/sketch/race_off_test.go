//go:build !race

package sketch_test

// few is how many times fewer decisions a test has under the race detector.
const few = 1
