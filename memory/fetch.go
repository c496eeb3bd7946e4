//go:build (amd64 || arm64) && !purego

package memory

// prefetch has the processor bring two lines near, and does not wait for them.
// It is in assembly as the language has no word for it.
//
//go:noescape
func prefetch(x, y *cacheLine)
