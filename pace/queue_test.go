package pace

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// Queues lists who is in line, by lane and key, and since when the oldest is in the
// gate, tries included; Resting who is not.
func TestQueues(t *testing.T) {
	g := Gate{Control: &spaced{gap: time.Hour}, Lanes: []float64{1, 2}}
	if q := g.Queues(); q != nil {
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
	if n, until := g.Resting(); n != 1 || !until.Equal(at(16*time.Second)) {
		t.Errorf("%d rest until %v, want 1 until +16s", n, until)
	}
	check := func(want ...Queue) {
		t.Helper()
		got := g.Queues()
		slices.SortFunc(got, func(a, b Queue) int { return cmp.Or(a.Lane-b.Lane, cmp.Compare(a.Key, b.Key)) })
		if !slices.Equal(got, want) {
			t.Errorf("queues\n got %v\nwant %v", got, want)
		}
	}
	check(Queue{0, "a", false, 2, at(2 * time.Second)}, Queue{1, "", false, 1, at(5 * time.Second)}, Queue{1, "a", false, 1, at(4 * time.Second)})
	g.Next(at(16 * time.Second)) // the rest is over, the pace lets none start
	if n, until := g.Resting(); n != 0 || !until.IsZero() {
		t.Errorf("%d rest until %v, want none", n, until)
	}
	check(Queue{0, "a", false, 3, at(0)}, Queue{1, "", false, 1, at(5 * time.Second)}, Queue{1, "a", false, 1, at(4 * time.Second)})
}

// The keys beyond 1000 are one queue.
func TestQueuesOfManyKeys(t *testing.T) {
	g := Gate{Control: &spaced{gap: time.Hour}, MaxInFlight: 1}
	for i := range 2 * maxFlows {
		g.Enter(at(time.Duration(i)), &Ticket{Key: string(rune('A' + i))})
	}
	all := g.Queues()
	i := slices.IndexFunc(all, func(q Queue) bool { return q.Others })
	if len(all) != maxFlows+1 || i < 0 {
		t.Fatalf("%d queues, the others at %d, want %d", len(all), i, maxFlows+1)
	}
	if got, want := all[i], (Queue{0, "", true, maxFlows, at(maxFlows)}); got != want {
		t.Errorf("the others are %v, want %v", got, want)
	}
}
