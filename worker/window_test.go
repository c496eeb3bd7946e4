package worker

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// TestWindow holds the frontier after each step, and how many are above it.
func TestWindow(t *testing.T) {
	type step struct {
		do       string
		n        int64
		frontier int64 // below zero: unknown
		len      int
	}
	for name, c := range map[string]struct {
		next  int64
		steps []step
	}{
		"in order":     {5, []step{{"accept", 5, 5, 1}, {"accept", 6, 5, 2}, {"done", 5, 6, 1}, {"done", 6, 7, 0}}},
		"out of order": {0, []step{{"accept", 0, 0, 1}, {"accept", 1, 0, 2}, {"accept", 2, 0, 3}, {"done", 2, 0, 3}, {"done", 1, 0, 3}, {"done", 0, 3, 0}}},
		"gaps":         {3, []step{{"accept", 10, 10, 1}, {"accept", 20, 10, 2}, {"done", 10, 20, 1}, {"done", 20, 21, 0}, {"accept", 30, 30, 1}}},
		"unknown":      {-1, []step{{"seen", 0, -1, 0}, {"accept", 7, 7, 1}, {"done", 7, 8, 0}}},
		"unknown gap":  {-1, []step{{"skip", 4, 4, 0}, {"seen", 3, 4, 0}}},
		"skip":         {3, []step{{"skip", 2, 3, 0}, {"skip", 9, 9, 0}, {"accept", 12, 12, 1}, {"skip", 11, 12, 1}, {"skip", 50, 12, 1}, {"done", 12, 50, 0}}},
	} {
		w := newWindow[int](c.next)
		numbers := map[int64]int64{}
		for i, s := range c.steps {
			switch s.do {
			case "accept":
				if w.seen(s.n) || w.early(s.n) {
					t.Errorf("%s, step %d: %d is seen %v, early %v", name, i, s.n, w.seen(s.n), w.early(s.n))
				}
				numbers[s.n] = w.accept(s.n, new(int))
			case "done":
				w.done(numbers[s.n])
			case "skip":
				w.skip(s.n)
			case "seen":
				if want := s.frontier > s.n; w.seen(s.n) != want {
					t.Errorf("%s, step %d: seen(%d) is %v", name, i, s.n, !want)
				}
			}
			f, known := w.frontier()
			if !known {
				f = -1
			}
			if f != s.frontier || w.len() != s.len {
				t.Errorf("%s, step %d, %s %d: frontier %d, len %d, want %d, %d", name, i, s.do, s.n, f, w.len(), s.frontier, s.len)
			}
		}
	}
}

// What was refused must come before what is behind it.
func TestWindowRefused(t *testing.T) {
	w := newWindow[int](0)
	w.accept(0, new(int))
	w.refuse(4) // after a gap
	for offset, want := range map[int64]bool{3: false, 4: false, 5: true, 9: true} {
		if w.early(offset) != want {
			t.Errorf("early(%d) = %v after a refusal of 4, want %v", offset, !want, want)
		}
	}
	w.skip(4)
	if !w.early(5) {
		t.Error("a skip up to what was refused forgets the refusal")
	}
	w.accept(4, new(int))
	if w.early(5) {
		t.Error("5 is early though 4 was accepted")
	}
	w.refuse(9)
	w.accept(8, new(int))
	if !w.early(10) || w.early(9) {
		t.Error("a record below what was refused forgets the refusal")
	}
	w.accept(9, new(int))
	w.refuse(10)
	w.skip(11)
	if w.early(12) {
		t.Error("12 is early though 10 was skipped")
	}
}

// The slots that are not used any more are not kept.
func TestWindowMemory(t *testing.T) {
	w := newWindow[int](0)
	for i := range int64(100_000) {
		w.accept(i, new(int))
		if i >= 50 {
			w.done(i - 50)
		}
	}
	if n := cap(w.slots); n > 500 {
		t.Errorf("%d slots for 50 records", n)
	}
	if f, _ := w.frontier(); f != 99_950 {
		t.Errorf("frontier %d, want 99950", f)
	}
}

func TestBreaker(t *testing.T) {
	at := time.Unix(0, 0)
	b := breaker{most: 3}
	records := make([]uint64, 10)
	fail := func(i int, probe bool) bool { return b.failure(at, &records[i], probe, 0) }
	for i := range 5 {
		if fail(0, false) || b.wait(at) != 0 {
			t.Fatalf("the breaker opens after failure %d of one record", i+1)
		}
	}
	fail(1, false)
	b.answer()
	fail(2, false)
	if fail(3, false) {
		t.Fatal("the breaker opens though an answer was between")
	}
	if !fail(0, false) { // counts again in a new row
		t.Fatal("the breaker does not open after 3 records")
	}
	for i, least := range []time.Duration{50, 100, 200, 250, 250, 250} {
		least *= time.Millisecond
		d := b.wait(at)
		if d < least || d >= 2*least {
			t.Errorf("probe %d after %v, want %v up to twice that", i, d, least)
		}
		at = at.Add(d)
		if !b.probe() || b.wait(at) != pace.Never {
			t.Errorf("beside probe %d others start", i)
		}
		if b.release(); fail(4, false) || b.wait(at) > 0 {
			t.Error("a failure from before the breaker opened puts off the probe")
		}
		fail(5, true)
	}
	if !b.answer() || b.wait(at) != 0 || b.probe() {
		t.Error("an answer does not close the breaker")
	}
	never := breaker{}
	for i := range records {
		if never.failure(at, &records[i], false, 0) {
			t.Error("a breaker without a bound opens")
		}
	}
}

func TestHeap(t *testing.T) {
	before := func(a, b int) bool { return a < b }
	var h heap[int]
	for i := range 1000 {
		h.push(i*7919%1000, before)
	}
	for i := range 1000 {
		if got := h.pop(before); got != i {
			t.Fatalf("pop %d = %d, of those that were pushed", i, got)
		}
	}
	for i := range 1000 {
		h.push(i*7919%1000, before)
	}
	h.all = append(h.all[:0], h.all...)
	for i := range h.all {
		h.all[i] = (h.all[i] + 500) % 1000
	}
	h.order(before)
	for i := range 1000 {
		if got := h.pop(before); got != i {
			t.Fatalf("pop %d = %d", i, got)
		}
	}
}
