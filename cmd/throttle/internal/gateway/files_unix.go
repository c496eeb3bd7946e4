//go:build darwin || linux

package gateway

import "golang.org/x/sys/unix"

// openFiles is how many files this process may have open at a time; 0 if it is not known.
func openFiles() int {
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &most) != nil {
		return 0
	}
	return int(min(most.Cur, 1<<30)) // of which there are never as many
}
