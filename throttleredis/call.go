package throttleredis

import "context"

// A history is whose data a slot has, as the fence says: the run_id of the
// process, when it wrote the fence, in seven bytes, and why. A process that lost
// writes while it was a replica, or all keys, goes on with another history.
const (
	processLen = 40
	historyLen = processLen + 8
	becauseNew = 'n' // there was no fence
)

// A server is what a slot knows of the Redis that answered last. It is immutable.
type server struct {
	history string // whose data it serves; empty: none has answered
	checked int64  // when a script last compared it with the fence, microseconds by its clock; zero: never
	since   string // then since when the fence was, encoded
	mode    byte   // of the last call
	header  any    // of the next call in that mode
}

// withHeader returns v with the header for calls in mode.
func (s *Store) withHeader(v server, mode byte) *server {
	v.mode = mode
	v.header = s.header(&v, mode, 0)
	return &v
}

// call sends c in a call of its own.
func (s *Store) call(ctx context.Context, sl *slot, c *command) (reply, error) {
	r, err := s.callServer(ctx, sl, c)
	if err == nil {
		r.answers, _, err = r.split(c.keys)
	}
	return r, err
}

// callServer sends c to the server of a slot and notes which process answered.
func (s *Store) callServer(ctx context.Context, sl *slot, c *command) (reply, error) {
	known := sl.server.Load()
	header := known.header
	if c.mode != known.mode || c.carriedAt != 0 {
		header = s.header(known, c.mode, c.carriedAt)
	}
	c.setCommon(sl.fenceArg, header)
	r, err := s.eval(ctx, &takeScript, c.args)
	if err == nil {
		s.noteServer(sl, &r, known, c.mode)
	}
	return r, err
}

// noteServer notes which process answered a call that expected known, and if the
// script compared it with the fence, when and since when the fence is.
func (s *Store) noteServer(sl *slot, r *reply, known *server, mode byte) {
	switch {
	case r.history != "":
		last := sl.server.Swap(s.withHeader(server{history: r.history, checked: r.now, since: r.since}, mode))
		s.noteHistory(last.history, r)
	case r.since != "":
		next := s.withHeader(server{history: known.history, checked: r.now, since: r.since}, mode)
		for last := sl.server.Load(); last.history == known.history && !sl.server.CompareAndSwap(last, next); {
			last = sl.server.Load()
		}
	}
}

// noteHistory counts what became of the history last.
func (s *Store) noteHistory(last string, r *reply) {
	for since, latest := intAt(r.since, 0), s.latest.Load(); since > latest && !s.latest.CompareAndSwap(latest, since); {
		latest = s.latest.Load()
	}
	switch {
	case last == "" || last == r.history:
	case last[:processLen] == r.history[:processLen] && r.history[historyLen-1] == becauseNew:
		s.flushed.Add(1)
	default:
		s.replaced.Add(1)
	}
}
