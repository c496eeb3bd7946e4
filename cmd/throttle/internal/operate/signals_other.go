//go:build !unix

package operate

import "os"

// There are no such signals here.
var reloadSignal, snapshotSignal os.Signal

func closeOnExec(int) {}

// OutliveReaders does nothing here: a write that nobody reads fails, and that is all.
func OutliveReaders() {}
