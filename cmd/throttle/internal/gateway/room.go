package gateway

import (
	"net/http"
	"sync/atomic"
	"time"
)

// lasting is for how long an exchange holds its place in load shedding before it is asked
// whom it waits for, and again.
const lasting = 250 * time.Millisecond

// mostLasting is how often an exchange is asked whose answer goes on: then it is taken for a
// stream, as of gRPC.
const mostLasting = 20

// stopwatch sums the waits for a caller. All times are since the start of the Gateway.
type stopwatch struct{ since, sum atomic.Int64 }

func (s *stopwatch) begin(now int64) { s.since.Store(now) }
func (s *stopwatch) end(now int64)   { s.sum.Add(now - s.since.Swap(0)) }

// total is the sum, with the wait that has begun.
func (s *stopwatch) total(now int64) int64 {
	if since := s.since.Load(); since > 0 {
		return s.sum.Load() + now - since
	}
	return s.sum.Load()
}

// lasts begins to watch the place of the exchange in load shedding, once its body is to come
// or its answer begins. It is given back where the exchange waits for its caller, or is a
// stream or a tunnel: that is no work of the service, and a few of them would hold all places.
// This is for bounds that are learnt: one that is set says how many requests the service holds.
func (x *exchange) lasts() {
	switch {
	case x.admission == nil || x.route.Shed == nil || x.route.Shed.MaxInFlight > 0:
	case x.tunnel || x.streams:
		x.place.Forget()
	default:
		x.mu.Lock()
		defer x.mu.Unlock()
		x.askLocked()
	}
}

// askLocked has yield look at the exchange after a while.
func (x *exchange) askLocked() {
	switch {
	case x.ended:
	case x.asked == nil:
		x.asked = time.AfterFunc(lasting, x.yield)
	default:
		x.asked.Reset(lasting)
	}
}

// yield gives the place back if the exchange has waited for its caller most of the time, or
// its answer goes on and on.
func (x *exchange) yield() {
	now, answers := x.g.now(), x.answers.Load()
	if !answers && x.whole.Load() { // the service has all that it needs
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if answers {
		x.asks++
	}
	before := x.waited
	x.waited = x.sends.total(now) + x.takes.total(now)
	if x.waited-before > int64(lasting/2) || x.asks >= mostLasting {
		x.place.Forget()
		return
	}
	x.askLocked()
}

// now is the time since the start.
func (g *Gateway) now() int64 { return int64(time.Since(g.start)) }

// FlushError flushes the answer.
func (x *exchange) FlushError() error {
	x.takes.begin(x.g.now())
	err := http.NewResponseController(x.ResponseWriter).Flush()
	x.takes.end(x.g.now())
	return err
}
