//go:build !unix

package rules

import "os"

// lock cannot lock: on such systems a File is for one process.
func lock(*os.File) (ok bool, err error) { return true, nil }
