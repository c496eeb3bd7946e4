//go:build unix

package intercept

import (
	"io/fs"
	"os"
	"syscall"
)

// exposed reports whether others may use the key in a file.
func exposed(info fs.FileInfo) bool {
	owner := -1
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(of.Uid)
	}
	return othersMay(info.Mode(), owner, os.Geteuid())
}
