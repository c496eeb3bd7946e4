//go:build !linux

package operate

// monotonic is for systemd, which is not here.
func monotonic() int64 { return 0 }
