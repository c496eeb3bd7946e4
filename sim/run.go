package sim

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Run is one run of a scenario. It is not safe for concurrent use.
type Run struct {
	// MaxSent bounds the requests sent; the run then ends and its Result says
	// Cut, as it does with four million tries in flight. If zero, 200 million.
	MaxSent int64
	// Watch, if not nil, is called with every request sent and every answer.
	Watch func(Point)

	scenario Scenario
	policies []Policy // of each group
	random   random
	queue    queue
	server   *server
	procs    []process
	workers  []*worker
	lanes    []*lane
	flights  []*flight
	landed   []*flight // that may be used again
	start    func(*pace.Ticket)
	line     *line // nil: what is not admitted is refused

	now       int64
	end       int64
	done, cut bool
	events    int64
	sent      int64
	answered  int64
	fairFrom  int64   // the last join
	work      []int64 // left to begin, of each group
	owed      int64   // calls of measured groups with work, not yet served
	worked    bool    // all measured groups have work that ends

	maxSleep int64
	waits    histogram
	took     histogram
	ended    int64 // calls that are over, served or not
	good     int64 // of these, served in time
	overflow int64
	finish   int64 // -1: not yet
	back     back
}

// Point describes one request that a worker sent, or its answer.
type Point struct {
	At              time.Duration
	Group, Process  int
	Worker          int
	Sent            bool          // false: it was answered
	Verdict         pace.Verdict  // of an answer
	Slept           time.Duration // before it was sent
	Level, Capacity float64       // of the server: the level after its last decision, and its rate a second
	Took            time.Duration // of an answer, since it was sent; also of a try that timed out
	Limit, InFlight int           // of its gate; a Limit of zero is none
}

// process is one client.
type process struct {
	group   int
	join    int64
	leave   int64 // 0: never
	workers []worker
	jobs    []int64 // when the calls that queue came up, a ring
	first   int     // of jobs
	queued  int
	idle    []*worker
	traced  int    // of the trace, the call that comes up next
	random  random // of when its calls come up
}

// worker has one request in flight at a time.
type worker struct {
	ticket  pace.Ticket
	lane    *lane
	process *process
	policy  *Policy
	index   int32 // in Run.workers
	place   int   // in its process, for Watch
	number  int   // of its process
	want    int64 // when its call came up
	wish    int64 // when it wanted to send this try
	slept   int64
	sentAt  int64
	report  pace.Report
	flight  *flight // that it waits for
	calling bool
	timed   bool  // evTimeout is planned
	patient bool  // evGiveUp is
	until   int64 // when its call is given up; 0: never
	key     int   // of its call
	cost    int64

	sent, served, throttled, timeouts, fair int64
}

const (
	defaultMaxSent = 200_000_000
	maxFlights     = 4_000_000 // tries in flight, including those without a caller
)

// New prepares a run. The scenario must have passed Check. The run begins at
// time.Unix(0, 0).
func New(s Scenario, p Policy, seed uint64) *Run {
	r := &Run{scenario: s, random: random(seed), finish: -1, end: never, worked: true}
	r.random = random(uint64(r.random.unit() * (1 << 53)))
	if s.Duration > 0 {
		r.end = int64(s.Duration)
	}
	r.start = func(t *pace.Ticket) { r.send(t.Owner.(*worker)) }
	r.server = newServer(&r.scenario, &r.random)
	p = p.begin()
	for i, g := range s.Clients {
		mine := p
		if g.Policy != nil {
			mine = g.Policy.begin()
		}
		r.policies = append(r.policies, mine.with(s.Settings))
		r.work = append(r.work, g.Work)
		if g.measured() {
			r.worked = r.worked && g.Work > 0
			r.owed += g.Work
		}
		r.enrol(i, g, seed)
	}
	r.plan()
	return r
}

// enrol makes the processes of a group.
func (r *Run) enrol(group int, g Group, seed uint64) {
	policy := &r.policies[group]
	for i := range g.Processes {
		r.procs = append(r.procs, process{group: group, workers: make([]worker, g.Workers), random: stream(seed, len(r.procs))})
		p := &r.procs[len(r.procs)-1]
		p.join = int64(g.Join) + int64(i)*int64(g.Every)
		if g.Leave > 0 {
			p.leave = int64(g.Leave) + int64(i)*int64(g.Every)
		}
		if g.measured() {
			r.fairFrom = max(r.fairFrom, p.join)
		}
		p.traced = i
		var off int64
		if g.Clock > 0 {
			off = int64((2*r.random.unit() - 1) * float64(g.Clock))
		}
		for w := range p.workers {
			if w == 0 || policy.PerWorker {
				r.lanes = append(r.lanes, r.lane(&g, policy, off, seed))
			}
			p.workers[w] = worker{
				policy: policy, index: int32(len(r.workers)), place: w, number: len(r.procs) - 1,
				lane: r.lanes[len(r.lanes)-1],
			}
			r.workers = append(r.workers, nil)
		}
	}
}

// lane makes the queue of a process or a worker.
func (r *Run) lane(g *Group, policy *Policy, off int64, seed uint64) *lane {
	l := &lane{id: int32(len(r.lanes)), wake: -1, off: off, server: r.server, control: policy.New, late: r.late}
	// A gate that refused a worker would lose it.
	l.gate = pace.Gate{
		Seed: seed<<20 ^ uint64(l.id), MaxWaiting: g.Workers, Retries: g.Retries, Budget: g.Budget,
		MaxInFlight: policy.MaxInFlight,
	}
	if policy.Concurrency != nil {
		l.gate.Concurrency = policy.Concurrency()
	}
	if !g.Scopes || r.server.By != ByKey {
		l.gate.Control = policy.New()
	}
	return l
}

// plan settles the pointers, now that the slices no longer move, and plans the
// first events.
func (r *Run) plan() {
	for i := range r.procs {
		p := &r.procs[i]
		g := r.scenario.Clients[p.group]
		for w := range p.workers {
			w := &p.workers[w]
			w.process, w.ticket.Owner = p, w
			r.workers[w.index] = w
			r.queue.push(p.join+int64(r.random.unit()*float64(startWithin)), evWake, w.index)
		}
		if g.arriving() {
			r.planJob(p, int32(i))
		}
	}
	for i, c := range r.scenario.Server.Changes {
		r.queue.push(int64(c.At), evChange, int32(i))
	}
	for i, c := range r.scenario.Server.Service.Speeds {
		r.queue.push(int64(c.At), evSpeed, int32(i))
	}
	if every := r.scenario.Server.Scale.Every; every > 0 {
		r.queue.push(int64(every), evScale, 0)
	}
}

// Now returns how far the run is: its time, and how many requests were sent.
func (r *Run) Now() (at time.Duration, sent int64) { return time.Duration(r.now), r.sent }

// Step simulates up to n events and reports whether the run is over.
func (r *Run) Step(n int) (over bool) {
	for ; n > 0 && !r.done; n-- {
		if len(r.queue.events) == 0 {
			if r.done = true; r.end < never {
				r.now = r.end // nothing more happens until then
			}
			break
		}
		e := r.queue.pop()
		if e.at >= r.end {
			r.now, r.done = r.end, true
			break
		}
		r.now = e.at
		r.events++
		r.handle(e)
	}
	return r.done
}

func (r *Run) handle(e event) {
	switch e.kind {
	case evArrive, evBegin, evEnd, evAnswer:
		r.flies(e)
	case evTimeout:
		r.timeout(r.workers[e.id])
	case evGiveUp:
		r.giveUp(r.workers[e.id])
	case evPump:
		if l := r.lanes[e.id]; l.due(e.at) {
			l.pump(r.now, &r.queue, r.start)
		}
	case evWake:
		r.wake(r.workers[e.id])
	case evJob:
		r.job(&r.procs[e.id], e.id)
	case evChange:
		r.change(r.scenario.Server.Changes[e.id])
	case evSpeed:
		r.hasten(r.scenario.Server.Service.Speeds[e.id])
	case evScale:
		if count := r.server.rescale(); float64(count) != perSecond(r.server.Limit, r.server.Limit.Count) {
			r.queue.push(r.now+int64(r.server.Scale.Delay), evScaled, int32(count))
		}
		r.queue.push(r.now+int64(r.server.Scale.Every), evScale, 0)
	case evScaled:
		r.change(Change{Count: int64(e.id), Period: time.Second})
	case evTick:
		if r.back.tick(r.now, r.server.served) {
			r.queue.push(r.now+slice, evTick, 0)
		}
	case evAdmit:
		if r.line.due == e.at { // no other look has been planned since
			r.admit()
		}
	}
}

func (r *Run) change(c Change) {
	r.server.change(r.now, c)
	if r.back.change(r.now, r.server.served, r.server.capacity.rate) {
		r.queue.push(r.now-r.now%slice+slice, evTick, 0)
	}
	if r.line != nil {
		r.admit()
	}
}
