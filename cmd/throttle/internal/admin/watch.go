package admin

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/rules"
)

const (
	// maxWatchers bounds the streams at a time.
	maxWatchers = 32
	// maxBehind is how many ticks a stream may be behind; one more ends it, and
	// its reader resumes from the ring.
	maxBehind = 16
	// goOn is how long ticks go on when nobody watches: a page that was hidden
	// meanwhile finds all of them in the ring.
	goOn = ticks.Kept * time.Second
)

// A moment is a tick as it is sent, encoded once for all watchers.
type moment struct {
	id   int64
	text []byte
}

// watch computes ticks while somebody watches. The zero value is ready.
type watch struct {
	ring ticks.Ring

	mu      sync.Mutex
	to      map[chan moment]bool
	running bool
	looked  time.Time // when somebody last did
	over    bool
	ending  chan struct{} // closed then
	done    sync.WaitGroup
}

// end ends the ticks and all streams.
func (v *watch) end() {
	v.mu.Lock()
	if !v.over {
		close(v.stopped())
	}
	v.over = true
	v.mu.Unlock()
	v.done.Wait()
}

// stopped is closed at the end. The lock is held.
func (v *watch) stopped() chan struct{} {
	if v.ending == nil {
		v.ending = make(chan struct{})
	}
	return v.ending
}

// looked makes the ticks go on for a while.
func (s *server) looked() {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.awake()
}

// join returns the ticks from now on, nil if too many watch.
func (s *server) join() chan moment {
	v := &s.watch
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.to) >= maxWatchers {
		return nil
	}
	if v.to == nil {
		v.to = map[chan moment]bool{}
	}
	c := make(chan moment, maxBehind)
	v.to[c] = true
	s.awake()
	return c
}

// leave ends what join began.
func (v *watch) leave(c chan moment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.to, c)
	v.looked = time.Now()
}

// awake starts the ticks. The lock is held.
func (s *server) awake() {
	v := &s.watch
	v.looked = time.Now()
	select {
	case <-v.stopped():
		return
	default:
	}
	if !v.running {
		v.running = true
		v.done.Go(func() { s.tick(v.stopped()) })
	}
}

// tick adds a tick each second, until nobody has watched for a while.
func (s *server) tick(ending <-chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	before, from := s.totals(), time.Now()
	for {
		select {
		case <-ending:
			return
		case <-every.C:
		}
		now, to := s.totals(), time.Now()
		t := ticks.Next(before, now, from, to)
		t.State = s.parts(to)
		before, from = now, to
		if !s.watch.deliver(s.watch.ring.Add(t), to) {
			return
		}
	}
}

// deliver sends a tick to all watchers, and reports whether there is to be another.
func (v *watch) deliver(t ticks.Tick, now time.Time) bool {
	text, err := json.Marshal(t)
	if err != nil { // of values of our own: a mistake in this package
		text = []byte("{}")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for c := range v.to {
		select {
		case c <- moment{t.ID, text}:
		default:
			close(c)
			delete(v.to, c)
		}
	}
	v.running = len(v.to) > 0 || now.Sub(v.looked) < goOn
	return v.running
}

// ended counts what has an end in an overlay, and is over.
func ended(o rules.Overlay, now time.Time) (n int) {
	for _, all := range [][]rules.Entry{o.Deny, o.Allow} {
		for _, e := range all {
			if e.Ended(now) {
				n++
			}
		}
	}
	for _, all := range o.Overrides {
		for _, v := range all {
			if v.Ended(now) {
				n++
			}
		}
	}
	for _, all := range o.Switches {
		for _, c := range all {
			if c.Ended(now) {
				n++
			}
		}
	}
	return n
}

// totals are the counts and latencies so far.
func (s *server) totals() ticks.Totals {
	return ticks.Totals{Counts: s.counts(), Latency: s.metrics.latency()}
}

// latency reads the histogram of decisions. The zero value is none.
func (m *metrics) latency() (l ticks.Latency) {
	families, err := m.ours.Gather()
	if err != nil {
		return l
	}
	for _, f := range families {
		if f.GetName() != "throttle_server_decision_duration_seconds" {
			continue
		}
		for _, one := range f.GetMetric() {
			for _, b := range one.GetHistogram().GetBucket() {
				l.Add(b.GetUpperBound(), b.GetCumulativeCount())
			}
			l.Add(math.Inf(1), one.GetHistogram().GetSampleCount())
		}
	}
	return l
}

// parts are the state of the parts.
func (s *server) parts(now time.Time) ticks.State {
	is := ticks.State{Store: "memory", Draining: s.draining()}
	stamp := fnv.New64a()
	if s.c.Rules != nil {
		c := s.configuration()
		is.Version, is.Age, is.Kill = c.Version, c.Age.Seconds(), s.killed(now)
		fmt.Fprint(stamp, c.OK)
	}
	if s.c.Guard != nil {
		g := storeStateOf(s.c.Guard.Stats())
		is.Store, is.Fallback = g.State, g.Fallback
	}
	if s.c.Stack != nil {
		o, left := s.c.Stack.Overlay()
		fmt.Fprint(stamp, o.Serial, len(left), ended(o, now))
	}
	fmt.Fprint(stamp, is.Version, is.Kill, is.Store, is.Draining, s.audit.last())
	is.Stamp = strconv.FormatUint(stamp.Sum64(), 36)
	return is
}
