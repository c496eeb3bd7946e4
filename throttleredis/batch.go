package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

const (
	defaultBatch = 128
	mostBatch    = 1024
	mostWaiting  = 1 << 16
	mostKeys     = 1024 // of a call, or a Take more
	// flights is how many calls of a slot are usually under way when Takes wait
	// for each other: one is being answered, one is on its way.
	flights = 2
	// mostFlights may be if none has come back for stuck.
	mostFlights = 32
	stuck       = 10 * time.Millisecond
)

// pending is one question on its way.
type pending struct {
	keys  []any
	args  []any // two for each key
	logs  bool  // some are logs
	plain bool  // one token bucket, see short.lua
	sent  time.Time
	at    int64 // of the states that were carried over; zero: there are none

	body string // the answers
	now  int64  // by the clock of Redis
	err  error

	done   chan struct{} // closed when answered; nil: nobody else answers
	flight *flight       // guarded by the lane

	fewKeys [1]any
	fewArgs [2]any
}

// A flight is one call for several callers.
type flight struct {
	all    []*pending
	left   int // callers that are still there; guarded by the lane
	cancel context.CancelFunc
}

// A lane is where the calls for one slot are.
type lane struct {
	fence string
	name  any    // the fence
	head  [3]any // of calls: ordinary, with logs, plain

	mu      sync.Mutex
	process string // that has answered last
	told    any    // a string: it, when it was last asked who it is, and the fence
	flying  int
	moved   time.Time // a call last began or ended
	waiting []*pending
}

func (s *Store) batch() int {
	if s.Batch == 0 {
		return defaultBatch
	}
	return min(s.Batch, mostBatch)
}

// lane is that of a slot.
func (s *Store) lane(slot int) *lane {
	v, ok := s.lanes.Load(slot)
	if !ok {
		ln := &lane{fence: s.fence(slot), told: "", head: [3]any{s.head(ordinary, 0), s.head(withLogs, 0), s.head(allPlain, 0)}}
		ln.name = ln.fence
		v, _ = s.lanes.LoadOrStore(slot, ln)
	}
	return v.(*lane)
}

// ask puts one question and returns when p is answered, or with an error when
// ctx ends.
func (s *Store) ask(ctx context.Context, ln *lane, p *pending) error {
	if err := ctx.Err(); err != nil {
		return &Error{Err: err}
	}
	if s.batch() <= 1 || p.at != 0 {
		s.send(ctx, ln, []*pending{p})
		return p.err
	}
	begins, err := ln.enter(p)
	switch {
	case err != nil:
		return err
	case begins:
		defer s.landed(ln)
		s.send(ctx, ln, []*pending{p})
		return p.err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ln.leave(ctx, p)
	}
}

// enter begins a call for p, or has it wait for others.
func (ln *lane) enter(p *pending) (begins bool, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.flying < flights || ln.flying < mostFlights && time.Since(ln.moved) > stuck {
		ln.flying++
		ln.moved = p.sent
		return true, nil
	}
	if len(ln.waiting) >= mostWaiting {
		return false, &Error{Err: fmt.Errorf("%d Takes wait for Redis already", mostWaiting)}
	}
	p.done = make(chan struct{})
	ln.waiting = append(ln.waiting, p)
	return false, nil
}

// leave is for a caller whose ctx has ended.
func (ln *lane) leave(ctx context.Context, p *pending) error {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	select {
	case <-p.done: // just now
		return p.err
	default:
	}
	if f := p.flight; f != nil {
		if f.left--; f.left == 0 {
			f.cancel()
		}
		return &Error{Charged: true, Err: ctx.Err()}
	}
	if i := slices.Index(ln.waiting, p); i >= 0 {
		ln.waiting = slices.Delete(ln.waiting, i, i+1)
	}
	return &Error{Err: ctx.Err()}
}

// landed ends a call, and begins the next if any wait for it.
func (s *Store) landed(ln *lane) {
	if f, ctx := s.next(ln); f != nil {
		go s.fly(ctx, ln, f) // until none wait, or all their callers have left
	}
}

// next ends a call and returns the next, or nil.
func (s *Store) next(ln *lane) (*flight, context.Context) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if len(ln.waiting) == 0 {
		ln.flying--
		return nil, nil
	}
	ln.moved = time.Now()
	n, keys := 0, 0
	for n < min(len(ln.waiting), s.batch()) && keys < mostKeys {
		keys += len(ln.waiting[n].keys)
		n++
	}
	if n == 0 || ln.flying > flights {
		ln.flying--
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{all: slices.Clone(ln.waiting[:n]), left: n, cancel: cancel}
	for _, p := range f.all {
		p.flight = f
	}
	ln.waiting = slices.Delete(ln.waiting, 0, n)
	return f, ctx
}

// fly makes calls as long as any wait for one.
func (s *Store) fly(ctx context.Context, ln *lane, f *flight) {
	for f != nil {
		s.send(ctx, ln, f.all)
		f.cancel()
		ln.mu.Lock()
		for _, p := range f.all {
			close(p.done)
		}
		ln.mu.Unlock()
		f, ctx = s.next(ln)
	}
}

// send makes one call for all, and answers each of them.
func (s *Store) send(ctx context.Context, ln *lane, all []*pending) {
	ln.mu.Lock()
	known, told := ln.process, ln.told
	ln.mu.Unlock()
	r, err := s.eval(ctx, &takeScript, s.args(ln, told, all))
	if err == nil {
		ln.meet(r, known)
	}
	for _, p := range all {
		if p.err = err; err == nil {
			p.now = r.now
			p.body, r.body, p.err = r.cut(len(p.keys))
			err = p.err
		}
	}
}

// meet notes who has answered, and if he was asked who he is, when and what the
// fence said.
func (ln *lane) meet(r reply, known string) {
	if r.process == "" && r.fence == "" {
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if r.process != "" {
		ln.process, ln.told = r.process, r.process
	} else if ln.process == known {
		b := append(make([]byte, 0, 54), known...)
		ln.told = string(append(appendInt(b, r.now), r.fence...))
	}
}

// args are those of a call, with room for the first two.
func (s *Store) args(ln *lane, known any, all []*pending) []any {
	keys, sort, plain := 1, byte(ordinary), true
	for _, p := range all {
		keys += len(p.keys)
		plain = plain && p.plain
		if p.logs {
			sort = withLogs
		}
	}
	if plain {
		sort = allPlain
	}
	args := make([]any, 4, 3+3*keys)
	args[2], args[3] = two, ln.name
	if keys > 2 {
		args[2] = strconv.Itoa(keys)
	}
	for _, p := range all {
		args = append(args, p.keys...)
	}
	head := ln.head[sort]
	if all[0].at != 0 {
		head = s.head(ordinary, all[0].at)
		if sort == withLogs {
			head = s.head(sort, all[0].at)
		}
	}
	args = append(args, known, head)
	for _, p := range all {
		args = append(args, p.args...)
	}
	return args
}

var two, evalsha any = "2", "EVALSHA"

// The sorts of calls, as short.lua knows them.
const (
	ordinary = iota
	withLogs
	allPlain
)

// head is what holds for all asks: how to fence, of which sort the call is, and
// the time of states that were carried over.
func (s *Store) head(sort byte, at int64) string {
	b := []byte{0, 0, sort}
	if s.Strict {
		b[0] = 1
	}
	if s.Unfenced {
		b[1] = 1
	}
	b = appendInt(b, int64(min(max(s.Overlap, 0), limit.Month)/time.Microsecond))
	return string(appendInt(b, at))
}

// reply is what a script answers.
type reply struct {
	now     int64
	process string // if it is another than the caller knew
	fence   string // if the script has looked at it: since when it is
	body    string
}

// eval runs a script, and again for a while if Redis says to try again, as it
// does while it moves a slot to another node.
func (s *Store) eval(ctx context.Context, sc *script, args []any) (r reply, err error) {
	pause := 2 * time.Millisecond
	for {
		r, err = s.evalOnce(ctx, sc, args)
		if err == nil || !says(err, "TRYAGAIN") || pause > time.Second {
			return r, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return r, &Error{Err: fmt.Errorf("%w, and Redis says %w", ctx.Err(), errors.Unwrap(err))}
		}
		pause *= 2
	}
}

// evalOnce runs a script where it is known, and otherwise makes it known.
func (s *Store) evalOnce(ctx context.Context, sc *script, args []any) (r reply, err error) {
	args[0], args[1] = evalsha, sc.sha
	v, err := s.Do(ctx, args...)
	if err != nil && says(err, "NOSCRIPT") {
		args[0], args[1] = "EVAL", sc.text
		v, err = s.Do(ctx, args...)
	}
	if err != nil {
		return r, failed(err)
	}
	b, ok := textOf(v)
	if !ok || len(b) < 8 || len(b) < 8+int(b[7]) {
		return r, &Error{Charged: true, Err: errReply}
	}
	r = reply{now: intAt(b, 0), process: b[8 : 8+b[7]], body: b[8+b[7]:]}
	if len(r.process) == 7 {
		r.fence, r.process = r.process, ""
	}
	return r, nil
}

// textOf is a bulk string, whatever type a client gives it.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case []byte:
		return string(v), true
	case string:
		return v, true
	}
	return "", false
}

// cut splits off the first n answers.
func (r *reply) cut(n int) (body, rest string, err error) {
	rest = r.body
	for range n {
		k := cutAnswer(rest)
		if k == 0 {
			return "", "", &Error{Charged: true, Err: errReply}
		}
		rest = rest[k:]
	}
	return r.body[:len(r.body)-len(rest)], rest, nil
}
