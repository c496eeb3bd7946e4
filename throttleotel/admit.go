package throttleotel

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
)

// Shedder observes load shedding: the concurrency limit, the work within it, and
// refusals by priority.
func (m *Metrics) Shedder(name string, s *admit.Shedder) error {
	return register(m, "Shedder", name, s, ofShedder, (*admit.Shedder).Stats)
}

// Shedders observes the Shedders that of returns, by name, whenever a reader collects:
// those of routes, which come and go. Beyond 100, the first names count; nil ones do not.
// of is called concurrently; it must not be nil, and is set once for m.
func (m *Metrics) Shedders(of func() map[string]*admit.Shedder) error {
	if of == nil {
		return errors.New("throttleotel: of the Shedders is nil")
	}
	p := part{kind: "set of Shedders"}
	if err := m.reserve(p); err != nil {
		return err
	}
	r, err := observeAll(m.meter(), ofShedder, func(see func(string, admit.ShedderStats)) {
		all := of()
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return all[name] == nil })
		for _, name := range names[:min(len(names), maxNames)] {
			see(name, all[name].Stats())
		}
	})
	return m.registered(p, r, err)
}

var ofShedder = []reading[admit.ShedderStats]{
	{
		counter, "throttle.shedder.requests", "{request}", "Work admitted or shed, by priority.",
		func(s admit.ShedderStats, o observer) {
			for i := range s.Passed {
				priority := keyPriority.String(load.Priority(i + 1).String())
				o.count(s.Passed[i], priority, keyOutcome.String("admitted"))
				o.count(s.Refused[i], priority, keyOutcome.String("shed"))
			}
		},
	},
	{
		upDown, "throttle.shedder.limit", "{request}", "The concurrency limit, learnt or set.",
		func(s admit.ShedderStats, o observer) { o.count(int64(s.Limit)) },
	},
	{
		upDown, "throttle.shedder.in_flight", "{request}", "Work in flight.",
		func(s admit.ShedderStats, o observer) { o.count(int64(s.InFlight)) },
	},
	{
		upDown, "throttle.shedder.waiting", "{request}", "Work that waits.",
		func(s admit.ShedderStats, o observer) { o.count(int64(s.Waiting)) },
	},
	{
		gauge, "throttle.shedder.peak_waiting", "{request}", "The most work that waited so far.",
		func(s admit.ShedderStats, o observer) { o.number(float64(s.PeakWaiting)) },
	},
	{
		gauge, "throttle.shedder.duration", "s", "Recent average duration of a piece of work; absent before the first is done.",
		func(s admit.ShedderStats, o observer) {
			if s.Took > 0 {
				o.time(s.Took)
			}
		},
	},
}

// Queue observes how many callers wait in q.
func (m *Metrics) Queue(name string, q *admit.Queue) error {
	return register(m, "Queue", name, q, ofQueue, (*admit.Queue).Waiting)
}

var ofQueue = []reading[int]{{
	upDown, "throttle.queue.waiting", "{request}", "Callers in line, of all keys.",
	func(n int, o observer) { o.count(int64(n)) },
}}

// Rules observes the refreshes of s, and the age of the version in use.
func (m *Metrics) Rules(name string, s *rules.Source) error {
	return register(m, "Source", name, s, ofRules, func(s *rules.Source) sourceStats {
		status := s.Status()
		return sourceStats{status, status.Age(time.Now())}
	})
}

type sourceStats struct {
	rules.Status
	age time.Duration
}

var ofRules = []reading[sourceStats]{
	{
		counter, "throttle.rules.refreshes", "{refresh}", "Refreshes of the rules, by whether there was a good version.",
		func(s sourceStats, o observer) {
			o.count(s.Refreshes-s.Failures, keyOutcome.String("ok"))
			o.count(s.Failures, keyOutcome.String("failed"))
		},
	},
	{
		counter, "throttle.rules.swaps", "{swap}", "Versions of the rules put into use.",
		func(s sourceStats, o observer) { o.count(s.Swaps) },
	},
	{
		gauge, "throttle.rules.age", "s", "Time since the source confirmed the version in use; absent before the first.",
		func(s sourceStats, o observer) {
			if !s.Confirmed.IsZero() {
				o.time(s.age)
			}
		},
	},
}
