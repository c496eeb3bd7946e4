package pace

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// Status lists what is in line, by lane and key, and since when the oldest is in the
// gate, tries included, and counts what rests.
func TestStatus(t *testing.T) {
	g := Gate{Control: &spaced{gap: time.Hour}, Lanes: []float64{1, 2}}
	if q := g.Status(t0).Queues; q != nil {
		t.Errorf("an unused gate has the queues %v", q)
	}
	put := func(after time.Duration, lane int, key string) *Ticket {
		k := &Ticket{Lane: lane, Key: key}
		if _, ok := g.Enter(at(after), k); !ok {
			t.Fatal("refused")
		}
		return k
	}
	first := put(0, 0, "a")
	if k, _ := g.Next(at(0)); k != first {
		t.Fatalf("%v started", k)
	}
	put(2*time.Second, 0, "a")
	put(3*time.Second, 0, "a")
	put(4*time.Second, 1, "a")
	put(5*time.Second, 1, "")
	if !g.Done(at(6*time.Second), first, Report{Verdict: Throttled, After: 10 * time.Second}) {
		t.Fatal("not retried")
	}
	s := g.Status(at(6 * time.Second))
	if s.Resting != 1 || !s.Rested.Equal(at(16*time.Second)) || s.Waiting != 5 || s.InFlight != 0 {
		t.Errorf("%+v, want 1 of 5 resting until +16s", s)
	}
	if want := time.Hour - 6*time.Second + 5*time.Hour; s.Next != want {
		t.Errorf("one more would start in %v, want %v", s.Next, want)
	}
	check := func(want ...Queue) {
		t.Helper()
		got := g.Status(t0).Queues
		slices.SortFunc(got, func(a, b Queue) int { return cmp.Or(a.Lane-b.Lane, cmp.Compare(a.Key, b.Key)) })
		if !slices.Equal(got, want) {
			t.Errorf("queues\n got %v\nwant %v", got, want)
		}
	}
	check(Queue{0, 0, "a", false, 2, at(2 * time.Second)}, Queue{1, 0, "", false, 1, at(5 * time.Second)}, Queue{1, 0, "a", false, 1, at(4 * time.Second)})
	g.Next(at(16 * time.Second)) // the rest is over, the pace lets none start
	if s := g.Status(at(16 * time.Second)); s.Resting != 0 || !s.Rested.IsZero() || s.Waiting != 5 {
		t.Errorf("%+v, want none resting", s)
	}
	check(Queue{0, 0, "a", false, 3, at(0)}, Queue{1, 0, "", false, 1, at(5 * time.Second)}, Queue{1, 0, "a", false, 1, at(4 * time.Second)})
}

// The keys beyond 1000 are one queue.
func TestStatusOfManyKeys(t *testing.T) {
	g := Gate{Control: &spaced{gap: time.Hour}, MaxInFlight: 1}
	for i := range 2 * maxFlows {
		g.Enter(at(time.Duration(i)), &Ticket{Key: string(rune('A' + i))})
	}
	all := g.Status(t0).Queues
	i := slices.IndexFunc(all, func(q Queue) bool { return q.Others })
	if len(all) != maxFlows+1 || i < 0 {
		t.Fatalf("%d queues, the others at %d, want %d", len(all), i, maxFlows+1)
	}
	if got, want := all[i], (Queue{0, 0, "", true, maxFlows, at(maxFlows)}); got != want {
		t.Errorf("the others are %v, want %v", got, want)
	}
}
