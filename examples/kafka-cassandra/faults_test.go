package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
)

// sceneLifted is a database that becomes ten times as fast.
func sceneLifted(t *testing.T, s *site) {
	const topic = "lifted"
	s.begin(t, topic).stop()
	s.produce(t, topic, 8000)
	ours := s.begin(t, topic).run(t)
	flows(t, ours.pipeline, 100)
	time.Sleep(time.Second)
	s.db.Set(standin.Knobs{Service: 10 * time.Millisecond, Width: 10})
	began, best := time.Now(), 0.0
	for time.Since(began) < 5*time.Second && best < 800 {
		from := counted(ours.pipeline)
		time.Sleep(time.Second)
		best = max(best, rate(from, counted(ours.pipeline)))
	}
	t.Logf("lifted from 100/s to 1000/s: %.0f/s after %v", best, time.Since(began))
	if best < 800 {
		t.Errorf("a limit lifted from 100/s to 1000/s: %.0f/s within 5 s, want at least 800/s", best)
	}
}

// scenePoison is one record that can never be written, with and without dead
// letters.
func scenePoison(t *testing.T, s *site, window int) {
	const topic, each = "poison", 3000
	s.begin(t, topic, "-dead", "letters").stop()
	s.produce(t, topic, 50)
	s.send(t, topic, 0, `{"device":"p0"`)
	s.produce(t, topic, each)
	ours := s.begin(t, topic, "-window", fmt.Sprint(window), "-every", "200ms", "-dead", "letters").run(t)
	// It is dead at once, and the frontier passes it.
	moved := await(t, "the frontier passes the poison", 10*time.Second, func() bool { return s.committed(t, topic)[0] > 51 })
	t.Logf("with dead letters: committed beyond it after %v", moved)
	if n := counted(ours.pipeline).gap; n > window {
		t.Errorf("gap %d, want at most %d", n, window)
	}
	if err := ours.stop(); err != nil {
		t.Error(err)
	}
}

// sceneKilled kills a member of the group by SIGKILL, freezes the database, kills
// the other, and lets a third one end the work.
func sceneKilled(t *testing.T, s *site, each int64, window int, lead time.Duration, session string) {
	const topic = "killed"
	s.begin(t, topic).stop()
	s.produce(t, topic, each)
	flags := []string{"-window", fmt.Sprint(window), "-session", session}
	one, two := s.process(t, topic, flags...), s.process(t, topic, flags...)
	await(t, "half a second's rows are there", 20*time.Second, func() bool { return s.some(t) })
	time.Sleep(lead)
	check := func(what string) {
		t.Helper()
		missing, above, committed := s.missing(t, topic, each)
		t.Logf("%s: committed %d, rows above %d", what, committed, above)
		if missing > 0 || committed == 0 || above > int64(partitions*window)+2000 {
			t.Errorf("%s: %d rows missing below %d committed, %d to be repeated; want none, some, and at most %d", what, missing, committed, above, partitions*window+2000)
		}
	}
	one.Process.Kill()
	_ = one.Wait() // it was killed
	check("the first is killed")
	s.freeze()
	time.Sleep(lead / 2)
	two.Process.Kill()
	_ = two.Wait()
	s.thaw()
	check("both are killed")
	three := s.begin(t, topic, append(flags, "-once")...).run(t)
	select {
	case <-three.ended:
	case <-time.After(60 * time.Second):
		t.Fatal("the third does not end")
	}
	if missing, above, committed := s.missing(t, topic, each); three.err != nil || missing+above != 0 || committed != each*partitions {
		t.Errorf("the third: %v, committed %d, %d missing, %d above; want all %d", three.err, committed, missing, above, each*partitions)
	}
}

// process starts the program in a process of its own, which ends with the test.
func (s *site) process(t *testing.T, topic string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], s.args(topic, more...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out := new(syncBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.Process.Kill() == nil {
			_ = cmd.Wait() // it was killed
		}
		if t.Failed() {
			t.Logf("a process said:\n%s", out)
		}
	})
	return cmd
}

// some reports whether any row is there.
func (s *site) some(t *testing.T) bool {
	for part := range int32(partitions) {
		if len(s.rows(t, part, 10)) > 0 {
			return true
		}
	}
	return false
}
