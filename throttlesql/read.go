package throttlesql

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// read reads the states before the Take from a reply that answers all of r.
func (r *request) read(reply *reply) error {
	r.now, r.ok = reply.now, reply.ok
	switch reply.from {
	case fromLook:
		r.items[0].state = reply.state
	case fromCharge:
		return r.readCharged(reply.state, r.items[0].charge.before(reply.state, r.now))
	case fromSlide:
		return r.readCharged(reply.state, r.items[0].limit.slideBefore(reply.state, r.asks[0].N))
	case fromSeveral:
		return r.readSeveral(reply)
	case fromTake:
		return r.readStates(reply)
	}
	return nil
}

// readCharged takes the state before the charge of one key, if package limit
// agrees on the one after.
func (r *request) readCharged(after, before limit.State) error {
	if state, d := limit.Take(before, time.UnixMicro(r.now), r.asks[0]); !d.OK || state != after {
		return errDisagree
	}
	r.items[0].state = before
	return nil
}

// slideBefore returns the state of a sliding window before n was charged, given
// the state after.
func (p *prepared) slideBefore(after limit.State, n int64) limit.State {
	before := limit.State{T: after.T, N: after.N - n, P: after.P}
	switch {
	case before.N == 0 && before.P == 0:
		return limit.State{}
	case before.N == 0:
		return limit.State{T: after.T - p.period, N: after.P}
	}
	return before
}

// readSeveral reads the states after the charges of several.sql.
func (r *request) readSeveral(reply *reply) error {
	list := elements(reply.states)
	for _, i := range r.sent {
		var after [2]int64 // T and N
		if !list.read(after[:]) {
			return errReply
		}
		it := &r.items[i]
		it.state = it.charge.before(limit.State{T: after[0], N: after[1]}, r.now)
	}
	return nil
}
