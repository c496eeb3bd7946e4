//go:build !unix

package operate

import "os"

// There are no such signals here.
var reloadSignal, snapshotSignal os.Signal

func closeOnExec(int) {}
