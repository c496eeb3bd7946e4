package sim

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// kind is what an event is about.
type kind uint8

const (
	evWake    kind = iota // a worker may begin a call
	evArrive              // a request reaches the server
	evAnswer              // an answer reaches its worker
	evPump                // a gate asked to be asked again
	evJob                 // a call comes up in a process
	evChange              // a scheduled change of capacity
	evScale               // the auto-scaler looks
	evScaled              // and its decision takes effect
	evTick                // a slice of the reconvergence measure is over
	evScript              // a step of a script
	evBegin               // a request that was delayed is worked on
	evEnd                 // the work on a request is done
	evTimeout             // a try has lasted too long
	evGiveUp              // a call has
	evSpeed               // a scheduled change of the speed of work
	evAdmit               // a server that keeps requests waiting looks again
)

// event is something that happens at a time, in nanoseconds since the start.
type event struct {
	at   int64
	seq  uint64 // events of one instant happen in the order they were planned
	id   int32
	kind kind
}

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue is a 4-ary min-heap of events: half as deep as a binary one, and its
// children lie together in memory.
type queue struct {
	events []event
	seq    uint64
}

func (q *queue) push(at int64, k kind, id int32) {
	q.seq++
	e := event{at, q.seq, id, k}
	q.events = append(q.events, e)
	i := len(q.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(q.events[parent]) {
			break
		}
		q.events[i] = q.events[parent]
		i = parent
	}
	q.events[i] = e
}

// pop removes the earliest event; there must be one.
func (q *queue) pop() event {
	first := q.events[0]
	n := len(q.events) - 1
	e := q.events[n]
	q.events = q.events[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if q.events[c].before(q.events[least]) {
				least = c
			}
		}
		if !q.events[least].before(e) {
			break
		}
		q.events[i] = q.events[least]
		i = least
	}
	q.events[i] = e
	return first
}

// epoch is the start of every run. Windows are aligned to it.
var epoch = time.Unix(0, 0)

// when is an instant of the run as a time.
func when(at int64) time.Time { return epoch.Add(time.Duration(at)) }

// lane is a gate and the one event that it waits for.
type lane struct {
	gate pace.Gate
	id   int32
	wake int64 // when evPump is due; -1: not
	off  int64 // how far its clock is ahead

	server  *server
	scopes  map[scopeOf]*pace.Scope
	control func() pace.Controller
	late    func(*pace.Ticket) // is called with those that are given up in line
}

// time is what the lane's clock says.
func (l *lane) time(now int64) time.Time { return when(now + l.off) }

// pump starts all calls that may start, and plans the next look.
func (l *lane) pump(now int64, q *queue, start func(*pace.Ticket)) {
	for {
		t, again := l.gate.Next(l.time(now))
		if t != nil {
			start(t)
			continue
		}
		if t := l.gate.GivenUp(); t != nil {
			l.late(t)
			continue
		}
		if at := now + int64(again); again < pace.Never/4 && (l.wake < 0 || at < l.wake) {
			l.wake = at
			q.push(at, evPump, l.id)
		}
		return
	}
}

// due reports whether an evPump is the one being waited for, and forgets it.
func (l *lane) due(at int64) bool {
	if at != l.wake {
		return false // an earlier one was planned since, and has been
	}
	l.wake = -1
	return true
}

// random is SplitMix64.
type random uint64

// stream is the i-th of the sources that a seed stands for.
func stream(seed uint64, i int) random {
	r := random(seed)
	r = random(r.next() + uint64(i))
	return random(r.next())
}

func (r *random) unit() float64 { return float64(r.next()>>11) / (1 << 53) }

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
