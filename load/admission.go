package load

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/internal/list"
)

// Admission decides the load shedding of a service: it is a semaphore with a
// priority queue. Work starts while fewer than MaxInFlight are in flight. Other
// work waits, the highest Priority first and within one in order of arrival.
// Work that would start too late, by the Forecast, is refused at once. When the
// queue is full, work takes the place of the last of the lowest Priority if that
// is lower than its own, and is refused otherwise.
//
// An Admission waits for nothing itself. After each Enter and Done its driver
// calls Next until there are no more, and it calls Leave for a Ticket whose
// Deadline has come. The zero value is ready. It must not be copied after its
// first use, and is not safe for concurrent use. The fields may change between
// two calls; a limit that is raised is used from the next Done on.
type Admission struct {
	// MaxInFlight bounds the work in flight. If zero or below, Concurrency does.
	MaxInFlight int
	// Concurrency learns how much work may be in flight, if MaxInFlight is not
	// set. If nil, an [Adaptive] bounded by MaxLimit.
	Concurrency Law
	// MaxLimit bounds the limit of that Adaptive. If zero or below, 10,000.
	MaxLimit int
	// MaxWaiting bounds the work that waits, of all priorities together. If zero
	// or below, 1000.
	MaxWaiting int
	// MaxWait bounds the wait. If zero, 100 ms, or the time in which ten pieces
	// of work are done if that is longer. If below zero, no work waits.
	MaxWait time.Duration

	adaptive        Adaptive
	inFlight        int
	lines           [Priorities]list.List[Ticket]
	waiting, peak   int
	decided         list.List[Ticket] // while it waited, and not yet returned by Next
	took            float64           // seconds that one takes, on average lately
	came            [Priorities]meter
	passed, refused [Priorities]int64
}

// Ticket is one piece of work on its way through an [Admission]. It may be
// reused when its State is no longer Waiting or Granted.
type Ticket struct {
	// Owner is for the driver, to find its own data for a Ticket that Next
	// returns.
	Owner any
	// Priority says how important the work is. Zero counts as Normal.
	Priority Priority
	// Deadline is when it is too late to start. If zero, or later than MaxWait
	// allows, Enter sets it to the end of that wait where the work must wait.
	Deadline time.Time

	place list.Node[Ticket] // in the line of its priority, or among the decided
	index int               // of its priority
	state State
	began time.Time
}

// State states the decision of an [Admission] on a [Ticket].
type State uint8

const (
	// Out means that it neither waits nor is in flight: it has not entered, has
	// left or is done.
	Out State = iota
	// Waiting means that it is in the queue.
	Waiting
	// Granted means that it is in flight.
	Granted
	// Full means that it was refused because the queue was full.
	Full
	// TooLate means that it was refused because it would have started after its
	// Deadline.
	TooLate
	// PushedOut means that work of a higher Priority took its place in the queue.
	PushedOut
)

// String returns the name of the state in small letters.
func (s State) String() string {
	names := [...]string{"out", "waiting", "granted", "full", "too late", "pushed out"}
	if int(s) >= len(names) {
		return "unknown"
	}
	return names[s]
}

// State returns the decision on t.
func (t *Ticket) State() State { return t.state }

// Stats are the numbers of an [Admission].
type Stats struct {
	// Limit is the current concurrency limit, InFlight the work in flight,
	// Waiting the work that waits, and PeakWaiting the most that waited so far.
	Limit, InFlight, Waiting, PeakWaiting int
	// Took is the recent average duration of a piece of work; zero if none is
	// done yet.
	Took time.Duration
	// Passed and Refused count by [Priority.Index]: Low is at 0, Critical at 3.
	// Work that gave up while it waited is in neither.
	Passed, Refused [Priorities]int64
}

// Stats returns the current numbers.
func (a *Admission) Stats() Stats {
	return Stats{
		Limit: a.limit(), InFlight: a.inFlight, Waiting: a.waiting, PeakWaiting: a.peak,
		Took:   time.Duration(a.took * float64(time.Second)),
		Passed: a.passed, Refused: a.refused,
	}
}

// Enter starts t, puts it in the queue, or refuses it: its State is then Granted,
// Waiting, Full or TooLate. It panics if t is inside already.
func (a *Admission) Enter(now time.Time, t *Ticket) State {
	if t.state == Waiting || t.state == Granted {
		panic("load: Enter of a ticket that is already inside")
	}
	a.decided.Remove(&t.place)
	t.index = t.Priority.Index()
	a.came[t.index].add(now)
	if a.free() {
		a.grant(now, t)
		return t.state
	}
	longest := a.longest()
	if t.Deadline.IsZero() || t.Deadline.Sub(now) > longest {
		t.Deadline = now.Add(longest)
	}
	if wait, ok := a.Forecast(now, t.Priority); !ok || wait >= t.Deadline.Sub(now) || longest <= 0 {
		return a.refuse(t, TooLate)
	}
	if a.waiting >= a.maxWaiting() && !a.pushOut(t.index) {
		return a.refuse(t, Full)
	}
	a.lines[t.index].Push(&t.place, t)
	t.state = Waiting
	a.waiting++
	a.peak = max(a.peak, a.waiting)
	return t.state
}

// Next returns a ticket whose State was decided while it waited: Granted, TooLate
// or PushedOut; nil if there is none. Each is returned once, and none after its
// Done.
func (a *Admission) Next() *Ticket {
	t := a.decided.Front()
	if t != nil {
		a.decided.Remove(&t.place)
	}
	return t
}

// Leave takes t out of the queue. It does nothing if t does not wait. If late, t
// counts as refused, because its Deadline has come; otherwise it gave up.
func (a *Admission) Leave(t *Ticket, late bool) {
	if t.state != Waiting {
		return
	}
	a.out(t)
	t.state = Out
	if late {
		a.refused[t.index]++
	}
}

// lately is how much one more weighs in what took is.
const lately = 0.05

// Done ends the work of t, and starts waiting work that there is room for. If
// learn is set, the concurrency limit learns from the time that t took: set it
// to false for work that took long for a reason of its own, or ended before its
// time. It panics if t is not in flight.
func (a *Admission) Done(now time.Time, t *Ticket, learn bool) {
	if t.state != Granted {
		panic("load: Done of a ticket that is not in flight")
	}
	a.decided.Remove(&t.place)
	t.state = Out
	if took := now.Sub(t.began); learn && took >= 0 {
		if a.took == 0 {
			a.took = took.Seconds()
		}
		a.took += lately * (took.Seconds() - a.took)
		if a.MaxInFlight <= 0 {
			a.law().Observe(Sample{Now: now, Took: took, InFlight: a.inFlight, End: Served})
		}
	}
	a.inFlight--
	for a.waiting > 0 && a.inFlight < a.limit() {
		a.next(now)
	}
}

// free reports whether work that comes now starts at once. Where a limit was raised,
// what waits has the first place.
func (a *Admission) free() bool { return a.waiting == 0 && a.inFlight < a.limit() }

// Forecast returns how long work of that priority would wait if it came now. The
// work ahead of it is done at the rate that higher priorities leave (A. Cobham,
// Priority Assignment in Waiting Line Problems, 1954). ok is false if they leave
// none. The wait is zero while there is room, and until the first work is done.
func (a *Admission) Forecast(now time.Time, p Priority) (wait time.Duration, ok bool) {
	if a.took == 0 || a.free() {
		return 0, true
	}
	i := p.Index()
	ahead := 1 + a.lines[i].Len()
	left := float64(a.limit()) / a.took // how many are done in a second
	for higher := i + 1; higher < Priorities; higher++ {
		ahead += a.lines[higher].Len()
		left -= a.came[higher].rate(now)
	}
	if left <= 0 {
		return 0, false
	}
	wait = duration(float64(ahead) / left)
	return wait, wait < math.MaxInt64
}

// limit is how much may be in flight.
func (a *Admission) limit() int {
	if a.MaxInFlight > 0 {
		return a.MaxInFlight
	}
	return a.law().Limit()
}

// law is what learns.
func (a *Admission) law() Law {
	if a.Concurrency != nil {
		return a.Concurrency
	}
	a.adaptive.Max = a.MaxLimit
	return &a.adaptive
}

func (a *Admission) maxWaiting() int {
	if a.MaxWaiting <= 0 {
		return 1000
	}
	return a.MaxWaiting
}

// longest is the longest wait.
func (a *Admission) longest() time.Duration {
	if a.MaxWait != 0 {
		return max(a.MaxWait, 0)
	}
	ten := 10 * a.took / float64(a.limit()) // seconds until ten are done
	return max(100*time.Millisecond, duration(ten))
}

// pushOut makes room for work of that index, at the cost of lower work.
func (a *Admission) pushOut(index int) bool {
	for lower := range index {
		if last := a.lines[lower].Back(); last != nil {
			a.drop(last, PushedOut)
			return true
		}
	}
	return false
}

// drop refuses work that waits.
func (a *Admission) drop(t *Ticket, why State) {
	a.out(t)
	a.refuse(t, why)
	a.decided.Push(&t.place, t)
}

// out takes t out of its line.
func (a *Admission) out(t *Ticket) {
	a.lines[t.index].Remove(&t.place)
	a.waiting--
}

func (a *Admission) refuse(t *Ticket, why State) State {
	a.refused[t.index]++
	t.state = why
	return why
}

func (a *Admission) grant(now time.Time, t *Ticket) {
	t.state, t.began = Granted, now
	a.inFlight++
	a.passed[t.index]++
}

// next grants the first of the highest priority in the queue, or refuses it if
// its Deadline has come without the driver noticing yet.
func (a *Admission) next(now time.Time) {
	i := Priorities - 1
	for a.lines[i].Len() == 0 {
		i--
	}
	t := a.lines[i].Front()
	if !t.Deadline.After(now) {
		a.drop(t, TooLate)
		return
	}
	a.out(t)
	a.grant(now, t)
	a.decided.Push(&t.place, t)
}

// duration is x seconds, at most the longest duration.
func duration(x float64) time.Duration {
	if x >= time.Duration(math.MaxInt64).Seconds() {
		return math.MaxInt64
	}
	return time.Duration(x * float64(time.Second))
}
