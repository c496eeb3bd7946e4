package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
)

// sceneLifted is a database that becomes ten times as fast.
func sceneLifted(t *testing.T, s *site) {
	const topic = "lifted"
	s.begin(t, topic).stop()
	s.produce(t, topic, 2000)
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

// scenePoison is one record whose writes fail each time: first without a bound of
// tries, then with five and dead letters.
func scenePoison(t *testing.T, s *site, each int64, window int) {
	const topic, bad = "poison", 50
	s.begin(t, topic, "-dead", "letters").stop()
	s.produce(t, topic, each)
	sick := func(more ...string) *job {
		j := s.begin(t, topic, append(more, "-window", fmt.Sprint(window), "-every", "200ms")...)
		handle := j.worker.Handle
		j.worker.Handle = func(ctx context.Context, r *kgo.Record) error {
			if r.Partition == 0 && r.Offset == bad {
				return throttle.Failed(errors.New("poison"))
			}
			return handle(ctx, r)
		}
		return j
	}
	one := sick("-tries", "0").run(t)
	flows(t, one.pipeline, 100)
	began := counted(one.pipeline)
	await(t, "the window of the sick partition is full", 60*time.Second, func() bool { return counted(one.pipeline).gap >= window })
	before := counted(one.pipeline)
	all := over(t, one.pipeline, 50*time.Millisecond, 2*time.Second)
	most := 0
	for _, c := range all {
		most = max(most, c.gap)
	}
	usual, others := rate(began, before), rate(all[0], all[len(all)-1])
	t.Logf("poison: gap %d; %.0f/s before, %.0f/s of the other partitions", most, usual, others)
	if most > window || others < 0.9*0.75*usual {
		t.Errorf("poison: gap %d and %.0f/s of three partitions, of four %.0f/s before; want at most %d and at least 90 %%", most, others, usual, window)
	}
	if err := one.stop(); err != nil {
		t.Error(err)
	}
	if at := s.committed(t, topic)[0]; at != bad {
		t.Errorf("poison at offset %d, committed %d, want it there", bad, at)
	}
	two := sick("-tries", "5", "-dead", "letters").run(t)
	await(t, "the record is dead", 20*time.Second, func() bool { return two.worker.Stats().Dead == 1 })
	moved := await(t, "the frontier passes it", 10*time.Second, func() bool { return s.committed(t, topic)[0] > bad })
	t.Logf("poison: committed beyond it %v after it went to the dead letters", moved)
	if moved > time.Second {
		t.Errorf("poison: the frontier passed it %v after it went to the dead letters, want 1 s", moved)
	}
	s.letter(t, topic, bad)
}

// letter checks the dead letter of an offset of partition 0.
func (s *site) letter(t *testing.T, topic string, offset int64) {
	t.Helper()
	c := s.client(t, kgo.ConsumeTopics("letters"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	letters := c.PollFetches(ctx).Records()
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	got := map[string]string{}
	for _, h := range letters[0].Headers {
		got[h.Key] = string(h.Value)
	}
	if want, _ := json.Marshal(madeUp(0, offset, 120)); string(letters[0].Value) != string(want) || got["topic"] != topic || got["partition"] != "0" || got["offset"] != fmt.Sprint(offset) || !strings.Contains(got["error"], "poison") {
		t.Errorf("dead letter %s with %v, want the record, from where it was and why", letters[0].Value, got)
	}
}

// sceneKilled kills a member of the group as by SIGKILL, freezes the database, kills
// the other, and lets a third one end the work.
func sceneKilled(t *testing.T, s *site, each int64, window int, lead time.Duration, more ...string) {
	const topic = "killed"
	s.begin(t, topic).stop()
	s.produce(t, topic, each)
	flags := append(more, "-window", fmt.Sprint(window))
	began := time.Now()
	killOne, killTwo := s.member(t, topic, flags...), s.member(t, topic, flags...)
	await(t, "something is committed", 30*time.Second, func() bool {
		sum := int64(0)
		for _, at := range s.committed(t, topic) {
			sum += at
		}
		return sum > 0
	})
	time.Sleep(lead)
	killOne()
	missing, above, committed := s.missing(t, topic, each)
	t.Logf("the first is killed: committed %d, rows above %d", committed, above)
	if missing > 0 || committed == 0 || committed == each*partitions {
		t.Errorf("the first is killed: %d rows missing below %d committed; want none, and some but not all %d committed", missing, committed, each*partitions)
	}
	s.freeze()
	time.Sleep(lead / 2)
	killTwo()
	took := time.Since(began)
	s.thaw()
	missing, above, committed = s.missing(t, topic, each)
	// Offsets are committed each second; the rate is not the same in all of them.
	replay := int64(partitions*window) + int64(2*float64(committed+above)/took.Seconds())
	t.Logf("both are killed: committed %d, rows above %d, at most %d", committed, above, replay)
	if missing > 0 || above > replay {
		t.Errorf("both are killed: %d rows missing below %d committed, %d to be repeated; want none, at most %d", missing, committed, above, replay)
	}
	three := s.begin(t, topic, append(flags, "-most", "512", "-once")...).run(t)
	select {
	case <-three.ended:
	case <-time.After(90 * time.Second):
		t.Fatal("the third does not end")
	}
	if missing, above, committed := s.missing(t, topic, each); three.err != nil || missing+above != 0 || committed != each*partitions {
		t.Errorf("the third: %v, committed %d, %d missing, %d above; want all %d", three.err, committed, missing, above, each*partitions)
	}
}

// member starts a member of the group that can be killed: a process, or at
// stand-ins a pipeline that loses all its connections.
func (s *site) member(t *testing.T, topic string, more ...string) (kill func()) {
	t.Helper()
	if s.db == nil {
		cmd := s.process(t, topic, more...)
		return func() { cmd.Process.Kill(); _ = cmd.Wait() } // it was killed
	}
	var mu sync.Mutex
	var open []net.Conn
	dead := false
	cut := *s
	cut.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := s.dial(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, c); dead && err == nil {
			c.Close()
			err = errors.New("killed")
		}
		return c, err
	}
	j := cut.begin(t, topic, append(more, "-drain", "1ms")...).run(t)
	return func() {
		mu.Lock()
		dead = true
		for _, c := range open {
			if c != nil {
				c.Close()
			}
		}
		mu.Unlock()
		j.stop()
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
