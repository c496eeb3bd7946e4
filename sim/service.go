package sim

import (
	"fmt"
	"math"
	"time"
)

// Pause stops all work of a server now and then, as a garbage collector does.
type Pause struct {
	// Every is the time from the start of one pause to that of the next; the
	// first begins after one Every. If zero, there are none.
	Every time.Duration
	// Length is how long a pause is, shorter than Every.
	Length time.Duration
}

// Slow makes a part of the workers of a server slower: one node of several.
type Slow struct {
	// Share is the share of the workers that are slow, and of the requests that
	// go to them, whether they are busy or not. If zero, none is; otherwise at
	// least one worker is slow, and one is not.
	Share float64
	// Times is how many times as long their work takes.
	Times float64
}

// Speed changes how long work takes, from a time on.
type Speed struct {
	At time.Duration
	// Times is how many times Service.Time work takes from then on. Work that has
	// begun is not changed.
	Times float64
}

// pool is workers that share a queue.
type pool struct {
	workers int
	times   float64 // as long as ordinary work
	working int     // workers; where there is no bound on them, requests
	queue   []*flight
}

// staff makes the pools of the service.
func (v *server) staff() {
	w := &v.Service
	v.speed = 1
	v.pools = []pool{{workers: w.AtOnce, times: 1}}
	if w.Slow.Share > 0 {
		slow := w.slow()
		v.pools[0].workers -= slow
		v.pools = append(v.pools, pool{workers: slow, times: w.Slow.Times})
	}
}

// slow is how many workers are slow: one at least, and not all, as no request that
// goes to the others would ever be worked on then.
func (w *Service) slow() int {
	return min(max(1, int(math.Round(float64(w.AtOnce)*w.Slow.Share))), w.AtOnce-1)
}

// pick chooses the pool of a request.
func (v *server) pick() int8 {
	if len(v.pools) > 1 && v.random.unit() < v.Service.Slow.Share {
		return 1
	}
	return 0
}

// full reports whether there is no room for one more request.
func (v *server) full(f *flight) bool {
	w := &v.Service
	if w.AtOnce == 0 || w.Queue < 0 {
		return false
	}
	p := &v.pools[f.pool]
	if len(v.pools) == 1 {
		return v.inside >= p.workers+w.Queue
	}
	return p.working == p.workers && len(p.queue) >= w.Queue*p.workers/w.AtOnce
}

// toil lets the server work on a request, or wait until it can.
func (r *Run) toil(f *flight) {
	v := r.server
	p := &v.pools[f.pool]
	if v.Service.AtOnce > 0 && p.working == p.workers {
		f.coming++ // it is taken out of the queue
		p.queue = append(p.queue, f)
		return
	}
	p.working++
	f.frees = true
	beside := 1
	if v.Service.AtOnce == 0 {
		beside = p.working
	}
	r.about(f, r.finishes(p, beside), evEnd)
}

// finishes is when work ends that begins now, on so many requests together.
func (r *Run) finishes(p *pool, together int) int64 {
	w := &r.server.Service
	work := r.random.lasts(float64(w.Time), w.Spread, w.Tail) + float64(w.Each)*float64(together)
	return w.Pause.after(r.now, integer(work*r.server.speed*p.times))
}

// next lets a worker that has become free begin what waits, as a batch if the
// service does that.
func (r *Run) next(p *pool) {
	n := min(len(p.queue), max(1, r.server.Service.Batch))
	if n == 0 {
		return
	}
	p.working++
	r.server.inside -= n - 1 // a batch takes the place of one
	ends := r.finishes(p, n)
	for i, f := range p.queue[:n] {
		p.queue[i] = nil
		f.coming--
		f.frees = i == n-1
		r.about(f, ends, evEnd)
	}
	p.queue = p.queue[n:]
}

// leave ends the work on a request, and begins that on the next.
func (r *Run) leave(f *flight) {
	r.goBack(f)
	v := r.server
	p := &v.pools[f.pool]
	if f.frees {
		p.working--
	}
	if v.Service.AtOnce == 0 {
		return
	}
	if f.frees {
		v.inside--
		r.next(p)
	}
	if r.line != nil {
		r.admit()
	}
}

// after is when work of that length ends that begins now.
func (p Pause) after(now, work int64) int64 {
	if p.Every == 0 {
		return now + work
	}
	every, length := int64(p.Every), int64(p.Length)
	busy := every - length
	if now < every { // no pause yet
		if work <= every-now {
			return now + work
		}
		now, work = every, work-(every-now)
	}
	into := now % every
	if into < length {
		now, into = now-into+length, length
	}
	left := every - into
	if work <= left {
		return now + work
	}
	work -= left
	now += left
	periods := (work - 1) / busy // whole ones, as a pause never ends work
	if periods > never/2/every {
		return now + never/2
	}
	return now + periods*every + length + work - periods*busy
}

// hasten takes up another speed.
func (r *Run) hasten(s Speed) {
	r.server.speed = s.Times
	rate := r.scenario.Server.Service.rate() / s.Times
	if math.IsInf(rate, 1) {
		return
	}
	r.server.capacity.speed(r.server, r.now)
	if r.back.change(r.now, r.server.served, r.server.capacity.rate) {
		r.queue.push(r.now-r.now%slice+slice, evTick, 0)
	}
}

// rate is how many requests a second it can work on, pauses included. Requests
// do not choose the pool that is free: the slower one bounds both.
func (w *Service) rate() float64 {
	batch := float64(max(1, w.Batch))
	once := w.Time.Seconds()*math.Exp(w.Tail*w.Tail/2) + batch*w.Each.Seconds()
	rate := float64(w.AtOnce) * batch / once
	if w.AtOnce == 0 {
		rate = 1 / w.Each.Seconds() // infinite if that is zero
	}
	if w.Pause.Every > 0 {
		rate *= 1 - float64(w.Pause.Length)/float64(w.Pause.Every)
	}
	if w.Slow.Share > 0 {
		slow := float64(w.slow()) / float64(w.AtOnce)
		rate *= min((1-slow)/(1-w.Slow.Share), slow/w.Slow.Share/w.Slow.Times)
	}
	return rate
}

// check returns what is wrong with a service.
func (w *Service) check() error {
	switch {
	case w.Time < 0 || w.Time > time.Hour || w.AtOnce < 0 || (w.AtOnce > 0 || w.Queue != 0) && (w.Time == 0 || w.AtOnce == 0):
		return fmt.Errorf("service of %v, %d at once, a queue of %d: its time must be within 0 and 1h; a bound on how many at once needs one, and a queue such a bound",
			w.Time, w.AtOnce, w.Queue)
	case w.Batch < 0 || w.Batch > 1 && w.AtOnce == 0 || w.Each < 0 || w.Each > time.Hour || w.Each > 0 && w.Time == 0:
		return fmt.Errorf("batches of %d, %v for each request: at least 0, batches need a bound on how many at once, and the other part of the service a time", w.Batch, w.Each)
	case w.Pause.Every < 0 || w.Pause.Length < 0 || w.Pause.Every > 0 && w.Pause.Length >= w.Pause.Every || w.Pause.Every > maxDuration:
		return fmt.Errorf("pause of %v every %v: must be shorter than the time from one to the next", w.Pause.Length, w.Pause.Every)
	case !(w.Slow.Share >= 0 && w.Slow.Share < 1) || w.Slow.Share > 0 && (w.AtOnce < 2 || !(w.Slow.Times >= 1 && w.Slow.Times <= 1000)):
		return fmt.Errorf("slow share %v, %v times: needs a share below 1 of at least 2 at once, and from 1 to 1000 times", w.Slow.Share, w.Slow.Times)
	case len(w.Speeds) > maxChanges || len(w.Speeds) > 0 && w.Time == 0:
		return fmt.Errorf("%d speeds: at most %d, of a service that takes time", len(w.Speeds), maxChanges)
	}
	last := time.Duration(-1)
	for _, s := range w.Speeds {
		if s.At <= last || s.At > maxDuration || !(s.Times >= 0.001 && s.Times <= 1000) {
			return fmt.Errorf("speed from %v on, %v times: needs rising times, and from 0.001 to 1000 times", s.At, s.Times)
		}
		last = s.At
	}
	return checkSpread(w.Spread, w.Tail)
}
