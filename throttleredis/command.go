package throttleredis

import (
	"strconv"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// The modes of a call. Lua knows a mode as the sort.
const (
	modeAny   = iota
	modeLogs  // some keys are sliding logs, which are read piece by piece
	modePlain // short.lua can decide: all take from token buckets
)

// A command is a request as it is sent: the arguments of EVALSHA.
type command struct {
	args      []any // script, number of keys, fence, names, header, asks
	keys      int   // as many names as asks
	mode      byte
	created   time.Time
	carriedAt int64 // see request
}

var two, evalsha any = "2", "EVALSHA" // converted to interfaces once: that allocates

// newCommand makes a command for n keys. What holds for all keys is set when it
// is sent.
func newCommand(n int) command {
	c := command{args: make([]any, 5+2*n), keys: n}
	c.args[2] = two
	if n != 1 {
		c.args[2] = strconv.Itoa(n + 1)
	}
	return c
}

// names returns the names of the keys in Redis.
func (c *command) names() []any { return c.args[4 : 4+c.keys] }

// asks returns the encoded asks.
func (c *command) asks() []any { return c.args[5+c.keys:] }

// setCommon sets what holds for all asks: the fence and the header.
func (c *command) setCommon(fence, header any) { c.args[3], c.args[4+c.keys] = fence, header }

// merge makes one command of those of a batch.
func merge(batch []*waiter) *command {
	n, mode := 0, batch[0].mode
	for _, w := range batch {
		n += w.keys
		switch {
		case w.mode == modeLogs:
			mode = modeLogs
		case w.mode != mode && mode != modeLogs:
			mode = modeAny
		}
	}
	c, k := newCommand(n), 0
	c.mode = mode
	for _, w := range batch {
		copy(c.names()[k:], w.names())
		copy(c.asks()[k:], w.asks())
		k += w.keys
	}
	return &c
}

// header encodes what holds for all asks, as start.lua reads it. known is the
// server that is expected to answer.
func (s *Store) header(known *server, mode byte, carriedAt int64) string {
	b := append(make([]byte, 0, 80), mode, 0, 0)
	if s.Strict {
		b[1] = 1
	}
	if s.Unfenced {
		b[2] = 1
	}
	b = appendInt(b, known.checked)
	if known.since != "" {
		b = append(b, known.since...)
	} else {
		b = appendInt(b, s.latest.Load())
	}
	b = appendInt(b, int64(min(max(s.Overlap, 0), limit.Month)/time.Microsecond))
	b = appendInt(b, carriedAt)
	return string(append(b, known.history...))
}
