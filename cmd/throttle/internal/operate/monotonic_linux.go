package operate

import "golang.org/x/sys/unix"

// monotonic returns CLOCK_MONOTONIC in microseconds, by which systemd tells a
// reload from the one before.
func monotonic() int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return now.Nano() / 1000
}
