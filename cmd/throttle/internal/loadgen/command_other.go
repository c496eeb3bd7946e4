//go:build !unix

package loadgen

import "os/exec"

// together does nothing: the end of a command's context kills its process alone.
func together(*exec.Cmd) {}
