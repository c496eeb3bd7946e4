package load_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// ledger counts, beside an Admission, what happens to each ticket.
type ledger struct {
	a                           load.Admission
	now                         time.Time
	line, under                 []*load.Ticket // who waits, in order of arrival, and who is in flight
	came, refused, gaveUp, done int
}

func (l *ledger) enter(p load.Priority) {
	l.came++
	k := &load.Ticket{Priority: p}
	switch l.a.Enter(l.now, k) {
	case load.Granted:
		l.under = append(l.under, k)
	case load.Waiting:
		l.line = append(l.line, k)
	default:
		l.refused++
	}
}

// settle takes note of those whose state was decided while they waited.
func (l *ledger) settle(t *testing.T) {
	for k := l.a.Next(); k != nil; k = l.a.Next() {
		l.take(t, k)
		switch k.State() {
		case load.Granted:
			l.under = append(l.under, k)
			for _, other := range l.line {
				if other.Priority.Index() > k.Priority.Index() {
					t.Fatalf("%v was granted while %v waits", k.Priority, other.Priority)
				}
			}
		case load.PushedOut, load.TooLate:
			l.refused++
		default:
			t.Fatalf("Next returns a ticket that is %v", k.State())
		}
	}
}

// take takes k out of the line. Of its priority it must be the first, unless it
// was pushed out.
func (l *ledger) take(t *testing.T, k *load.Ticket) {
	for i, other := range l.line {
		if other == k {
			l.line = append(l.line[:i], l.line[i+1:]...)
			return
		}
		if other.Priority.Index() == k.Priority.Index() && k.State() != load.PushedOut {
			t.Fatalf("a ticket is %v before an older one of its priority", k.State())
		}
	}
	t.Fatal("Next returns a ticket that did not wait, or twice")
}

// check compares the numbers of the Admission with those of the ledger. before
// is how many were in flight before the step, without one that has ended in it.
func (l *ledger) check(t *testing.T, before, maxWaiting int) {
	t.Helper()
	n := l.a.Stats()
	var passed, refused int64
	for i := range load.Priorities {
		passed, refused = passed+n.Passed[i], refused+n.Refused[i]
	}
	if n.InFlight != len(l.under) || n.Waiting != len(l.line) || passed != int64(l.done+len(l.under)) || refused != int64(l.refused) {
		t.Fatalf("%d in flight, %d wait, %d done, %d refused; counted %+v", len(l.under), len(l.line), l.done, l.refused, n)
	}
	if int64(l.came) != passed+refused+int64(l.gaveUp+n.Waiting) {
		t.Fatalf("%d came, %d passed, %d were refused, %d gave up, %d wait", l.came, passed, refused, l.gaveUp, n.Waiting)
	}
	if n.Waiting > maxWaiting || n.PeakWaiting > maxWaiting {
		t.Fatalf("%d wait, %d at most so far, want %d at most", n.Waiting, n.PeakWaiting, maxWaiting)
	}
	if n.InFlight > max(before, n.Limit) { // a limit that is learnt may fall below it
		t.Fatalf("%d in flight after %d, where %d may be", n.InFlight, before, n.Limit)
	}
	if n.Waiting > 0 && n.InFlight < n.Limit {
		t.Fatalf("%d wait, where %d of %d are in flight", n.Waiting, n.InFlight, n.Limit)
	}
}

// FuzzAdmission: whatever comes, ends, gives up and waits too long, never more
// are in flight or wait than may, none waits while there is room, the higher
// priority goes first, all are counted, and each fate is told once.
func FuzzAdmission(f *testing.F) {
	f.Add([]byte("abcdefgh"), uint8(2), uint8(3))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 100, 101, 200, 201, 202, 3, 3, 3, 250}, uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, most, waiting uint8) {
		maxWaiting := 1 + int(waiting%8)
		l := ledger{now: t0, a: load.Admission{
			MaxInFlight: int(most % 5), MaxLimit: 10, MaxWaiting: maxWaiting, MaxWait: 300 * ms,
		}}
		for _, b := range script {
			l.now = l.now.Add(time.Duration(b) * ms / 4)
			before := len(l.under)
			switch k := int(b); {
			case k%4 < 2:
				l.enter(load.Priority(k / 4 % (load.Priorities + 1)))
			case k%4 == 2 && len(l.under) > 0:
				i := k / 4 % len(l.under)
				ends := l.under[i]
				l.under = append(l.under[:i], l.under[i+1:]...)
				l.a.Done(l.now, ends, k%8 < 4)
				l.done++
				before--
			case k%4 == 3 && len(l.line) > 0:
				i := k / 4 % len(l.line)
				l.a.Leave(l.line[i], k%8 < 4)
				l.line = append(l.line[:i], l.line[i+1:]...)
				if k%8 < 4 {
					l.refused++
				} else {
					l.gaveUp++
				}
			}
			l.settle(t)
			l.check(t, before, maxWaiting)
		}
	})
}
