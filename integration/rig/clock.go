package rig

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A Clock is the wall clock of the engines that are started under it. It shows
// the time of the machine until it is shifted. Clocks for durations are not
// touched.
type Clock struct {
	file string // the shift in nanoseconds, which the engine has mapped
	shim string
}

// clockSource is a library that is loaded before all others. The one of
// libfaketime 0.9.10 hangs redis-server, as it allocates memory within the
// allocator's own start.
//
//go:embed shim/clock.c
var clockSource []byte

// clockShim compiles clockSource.
var clockShim = sync.OnceValues(func() (string, error) {
	cc, err := program("gcc", "cc", "gcc", "clang")
	if err != nil {
		return "", err
	}
	dir, err := folder("clock")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the user postgres loads it too
		return "", err
	}
	from, to := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(from, clockSource, 0o644); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return to, run(ctx, nil, cc, "-O2", "-Wall", "-shared", "-fPIC", "-o", to, from)
})

// NewClock makes a clock that shows the time of the machine.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	shim, err := clockShim()
	check(t, err)
	f, err := os.CreateTemp(filepath.Dir(shim), "shift-")
	check(t, err)
	check(t, f.Chmod(0o644))
	check(t, f.Close())
	c := &Clock{file: f.Name(), shim: shim}
	c.Shift(t, 0)
	return c
}

// Shift sets how far the clock is ahead of that of the machine, or behind, at
// once.
func (c *Clock) Shift(t testing.TB, d time.Duration) {
	t.Helper()
	check(t, c.set(d))
}

func (c *Clock) set(d time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d)), 0)
	return err
}

// Slew lets the clock, which is off by so much, run faster by a part of the time
// that passes, or slower if below zero, in steps of a millisecond, until stopped,
// at the end of the test at the latest. stop returns how far it is off then.
func (c *Clock) Slew(t testing.TB, off time.Duration, by float64) (stop func() time.Duration) {
	t.Helper()
	began, ended, done := time.Now(), make(chan struct{}), make(chan error)
	now := func() time.Duration { return off + time.Duration(by*float64(time.Since(began))) }
	go func() {
		var err error
		each := time.NewTicker(time.Millisecond)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				err = cmp.Or(err, c.set(now()))
			case <-ended:
				done <- err
				return
			}
		}
	}()
	stop = sync.OnceValue(func() time.Duration {
		close(ended)
		check(t, <-done)
		d := now()
		c.Shift(t, d)
		return d
	})
	t.Cleanup(func() { stop() })
	return stop
}

func (c *Clock) env() []string { return []string{"LD_PRELOAD=" + c.shim, "THROTTLE_CLOCK=" + c.file} }

// Redis starts a redis-server under the clock, as [Redis] does.
func (c *Clock) Redis(t testing.TB, args ...string) *Node {
	t.Helper()
	return server(t, plan{find: redisServer, args: volatile(args...), env: c.env()})
}

// Postgres starts a PostgreSQL server under the clock, as [Postgres] does.
func (c *Clock) Postgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	return postgres(t, settings, c.env())
}
