// Package jump puts the wall clock of a Go program forward and back while it
// runs, as an operator or a suspended machine does, and leaves the monotonic
// clock alone. It is for tests: no other program sees anything of it.
//
// Go asks the kernel for the time by a function that the kernel maps into every
// process, so nothing that is loaded before the C library reaches it. Here a
// function of our own takes that place.
package jump

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// seconds is how far the wall clock of this process is ahead.
var seconds int64

// ErrElsewhere is the error of Wall on machines that it does not support.
var ErrElsewhere = errors.New("jump: the wall clock of a process can be shifted on linux/amd64 only")

var mu sync.Mutex

// Wall puts the wall clock of this process ahead of that of the machine, or
// behind, by whole seconds of d, at once and for all goroutines: not by d more
// than before. The error is that it had no effect. It is safe for concurrent
// use.
func Wall(d time.Duration) error {
	mu.Lock()
	defer mu.Unlock()
	if err := install(); err != nil {
		return err
	}
	by := int64(d/time.Second) - atomic.LoadInt64(&seconds)
	before := time.Now()
	atomic.AddInt64(&seconds, by)
	after := time.Now()
	want := time.Duration(by) * time.Second
	if wall, mono := after.Round(0).Sub(before.Round(0)), after.Sub(before); (wall - mono - want).Abs() > time.Second/2 {
		return fmt.Errorf("jump: the clock was put forward by %v and went by %v in %v: this Go reads it in another way", want, wall, mono)
	}
	return nil
}
