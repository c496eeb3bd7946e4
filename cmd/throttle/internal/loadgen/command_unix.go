//go:build unix

package loadgen

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// together lets the end of a command's context kill its children too: they are one
// process group.
func together(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error {
		err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
