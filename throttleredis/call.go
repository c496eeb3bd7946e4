package throttleredis

import "context"

// A server is what a slot knows of the Redis process that answered last. It is
// immutable.
type server struct {
	process string // its run_id; empty: none has answered
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
	case r.process != "":
		last := sl.server.Swap(s.withHeader(server{process: r.process}, mode))
		if last.process != "" && last.process != r.process {
			s.replaced.Add(1)
		}
	case r.since != "":
		next := s.withHeader(server{process: known.process, checked: r.now, since: r.since}, mode)
		for last := sl.server.Load(); last.process == known.process && !sl.server.CompareAndSwap(last, next); {
			last = sl.server.Load()
		}
	}
}
