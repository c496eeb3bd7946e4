//go:build !linux

package throttle

// advise does nothing: other systems choose the pages themselves.
func advise([]byte) {}
