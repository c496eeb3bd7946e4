package sim

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Script is a scripted run of one gate: when calls arrive and are given up, and
// how each try is answered. It drives a gate step by step, to compare it with
// the same script played live.
type Script struct {
	Calls []ScriptCall
	// Spurious adds needless calls of Next to the gate, one in each such time.
	// If zero, none.
	Spurious time.Duration
}

// ScriptCall is one call of a Script.
type ScriptCall struct {
	Arrive time.Duration
	// Cancel is when the caller gives up, whatever it is doing. If zero, never.
	Cancel time.Duration
	// Deadline is when it is too late for the call to start. If zero, never.
	Deadline time.Duration
	// Answers are the ends of its tries; the last one is repeated.
	Answers []ScriptAnswer
}

// ScriptAnswer states how and after how long a try ends.
type ScriptAnswer struct {
	Takes  time.Duration
	Report pace.Report
}

// Step records one step of a call of a Script.
type Step struct {
	At   time.Duration
	Call int
	What What
}

// What says which step of a call a Step records.
type What uint8

const (
	Refused   What = iota // by Enter
	Started               // a try began
	Ended                 // for good, with its last report
	Abandoned             // its caller gave up
)

func (w What) String() string {
	return [...]string{"refused", "started", "ended", "abandoned"}[w&3]
}

// scripted is a call in flight.
type scripted struct {
	ScriptCall
	ticket pace.Ticket
	id     int32
	flying bool
	over   bool
}

// replay is a Script being played.
type replay struct {
	queue queue
	lane  lane
	calls []scripted
	trace []Step
	now   int64
}

// Events of a replay use the kinds of a run: evWake arrives, evAnswer answers,
// evScript cancels, evTick asks needlessly.

// Replay plays a script against a gate and returns what happened, in order.
func Replay(gate pace.Gate, s Script) []Step {
	r := &replay{lane: lane{gate: gate, wake: -1}, calls: make([]scripted, len(s.Calls))}
	r.lane.late = r.late
	for i, c := range s.Calls {
		r.calls[i] = scripted{ScriptCall: c, id: int32(i)}
		r.queue.push(int64(c.Arrive), evWake, int32(i))
		if c.Cancel > 0 {
			r.queue.push(int64(c.Cancel), evScript, int32(i))
		}
	}
	if s.Spurious > 0 {
		r.queue.push(int64(s.Spurious), evTick, 0)
	}
	for left := len(r.calls); left > 0 && len(r.queue.events) > 0; {
		e := r.queue.pop()
		r.now = e.at
		before := r.over()
		r.handle(e)
		left -= r.over() - before
		if e.kind == evTick {
			r.queue.push(r.now+int64(s.Spurious), evTick, 0)
		}
	}
	return r.trace
}

// over is how many calls are over.
func (r *replay) over() (n int) {
	for i := range r.calls {
		if r.calls[i].over {
			n++
		}
	}
	return n
}

func (r *replay) handle(e event) {
	if e.kind == evPump || e.kind == evTick {
		if e.kind == evTick || r.lane.due(e.at) {
			r.pump()
		}
		return
	}
	c := &r.calls[e.id]
	if c.over {
		return
	}
	now := when(r.now)
	switch e.kind {
	case evWake:
		c.ticket.Owner = c
		if c.Deadline > 0 {
			c.ticket.Deadline = when(int64(c.Deadline))
			c.ticket.End = c.ticket.Deadline
		}
		if _, ok := r.lane.gate.Enter(now, &c.ticket); !ok {
			r.end(c, Refused)
		}
	case evScript:
		if c.flying { // what has left comes back as nothing learnt
			r.lane.gate.Done(now, &c.ticket, pace.Report{TimedOut: c.Cancel == c.Deadline})
		} else {
			r.lane.gate.Leave(now, &c.ticket)
		}
		r.end(c, Abandoned)
	case evAnswer:
		c.flying = false
		if !r.lane.gate.Done(now, &c.ticket, c.answer().Report) {
			r.end(c, Ended)
		}
	}
	r.pump()
}

// answer is how the try in flight ends.
func (c *scripted) answer() ScriptAnswer {
	return c.Answers[min(c.ticket.Tries(), len(c.Answers))-1]
}

func (r *replay) end(c *scripted, w What) {
	c.over = true
	r.trace = append(r.trace, Step{time.Duration(r.now), int(c.id), w})
}

// late ends a call that the gate gave up in line.
func (r *replay) late(t *pace.Ticket) {
	w := Ended
	if t.Tries() == 0 {
		w = Refused
	}
	r.end(t.Owner.(*scripted), w)
}

func (r *replay) pump() {
	r.lane.pump(r.now, &r.queue, func(t *pace.Ticket) {
		c := t.Owner.(*scripted)
		c.flying = true
		r.trace = append(r.trace, Step{time.Duration(r.now), int(c.id), Started})
		r.queue.push(r.now+int64(c.answer().Takes), evAnswer, c.id)
	})
}
