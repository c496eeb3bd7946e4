//go:build !(amd64 || arm64) || purego

package memory

// prefetch does nothing: to read the lines would be to wait for them.
func prefetch(_, _ *cacheLine) {}
