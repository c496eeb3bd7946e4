package rig

import (
	"bytes"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// selfAddr is the variable by which [Serve] knows that it is to, and where.
const selfAddr = "THROTTLE_RIG_SERVE"

// A Self is this test binary once more, in a process of its own that can be
// frozen, thawed and killed.
type Self struct {
	*Process
	*rpc.Client
}

// Again starts the test binary once more. What TestMain passes to [Serve] is
// what its Client calls, by package net/rpc. The process ends with the test.
func Again(t testing.TB) *Self {
	t.Helper()
	s, err := again(startSelf)
	check(t, err)
	t.Cleanup(s.remove)
	return s
}

func startSelf() (*Self, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	at, err := port()
	if err != nil {
		return nil, err
	}
	dir, err := folder("self")
	if err != nil {
		return nil, err
	}
	s := &Self{Process: &Process{Dir: dir, path: path, env: []string{selfAddr + "=" + local(at)}}}
	s.ready = func() (err error) {
		s.Client, err = rpc.Dial("tcp", local(at))
		return err
	}
	if err := s.start(); err != nil {
		s.Process.remove()
		return nil, err
	}
	return s, nil
}

// Ask calls a method of what is served, and ends the test if it fails, or if it
// takes longer than anything here may.
func (s *Self) Ask(t testing.TB, method string, question, answer any) {
	t.Helper()
	call := s.Go(method, question, answer, make(chan *rpc.Call, 1))
	end := time.NewTimer(patience)
	defer end.Stop()
	select {
	case <-call.Done:
		if call.Error != nil {
			t.Fatalf("rig: %s of the other process: %v; its log ends:\n%s", method, call.Error, s.tail())
		}
	case <-end.C:
		t.Fatalf("rig: %s of the other process is not done after %v; its log ends:\n%s", method, patience, s.tail())
	}
}

// Freeze stops the process, and returns when no thread of it runs any more.
func (s *Self) Freeze(t testing.TB) {
	t.Helper()
	s.Process.Freeze()
	Until(t, "the other process has stopped", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		if err != nil || len(all) == 0 {
			return fmt.Errorf("it has no threads: %w", err)
		}
		for _, stat := range all {
			text, err := os.ReadFile(stat)
			if err != nil {
				return err
			}
			if state := text[bytes.LastIndexByte(text, ')')+1:]; !bytes.HasPrefix(state, []byte(" T")) {
				return fmt.Errorf("a thread is in state%.2s", state)
			}
		}
		return nil
	})
}

func (s *Self) remove() {
	s.Close()
	s.Process.remove()
}

// Serve does nothing in a test binary. In one that was started by [Again] it
// serves the methods of v to the one that has started it, and never returns.
// TestMain calls it first.
func Serve(v any) {
	addr := os.Getenv(selfAddr)
	if addr == "" {
		return
	}
	l, err := net.Listen("tcp", addr)
	if err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			if err = rpc.Register(v); err == nil {
				rpc.ServeConn(c) // until the other closes it
			}
		}
	}
	if err != nil {
		println("rig: cannot serve:", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}
