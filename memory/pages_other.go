//go:build !linux

package memory

// advise does nothing: other systems choose the pages themselves.
func advise([]byte) {}
