// Package tutorial does what docs/tutorial.md says, as a reader would: in an empty
// folder, with one shell, a real Redis and nothing of this repository but the
// library.
package tutorial
