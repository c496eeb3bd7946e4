package throttleotel

import (
	"time"

	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// Guard observes the circuit breaker in front of a Store: whether it is open, and
// which calls the Store decided.
func (m *Metrics) Guard(name string, g *store.Guard) error {
	return register(m, "Guard", name, g, ofGuard, (*store.Guard).Stats)
}

var ofGuard = []reading[store.GuardStats]{
	{
		upDown, "throttle.guard.state", "{guard}", "1 for the state of the circuit breaker, 0 for the other two: closed, away (open, the Store does not answer) or slow (open, it answers too late).",
		func(s store.GuardStats, o observer) {
			o.count(whether(!s.Away && !s.Slow), keyState.String("closed"))
			o.count(whether(s.Away), keyState.String("away"))
			o.count(whether(s.Slow), keyState.String("slow"))
		},
	},
	{
		counter, "throttle.guard.calls", "{call}", "Calls decided by the Store or by the fallback, or canceled by their context.",
		func(s store.GuardStats, o observer) {
			o.count(s.Decided, keyOutcome.String("store"))
			o.count(s.Fallback, keyOutcome.String("fallback"))
			o.count(s.Canceled, keyOutcome.String("canceled"))
		},
	},
	{
		counter, "throttle.guard.failures", "{call}", "Calls that the Store answered with an error, or later than the Timeout.",
		func(s store.GuardStats, o observer) {
			o.count(s.Errors, keyReason.String("error"))
			o.count(s.Late, keyReason.String("late"))
		},
	},
	{
		upDown, "throttle.guard.pending", "{call}", "Calls without a caller that the Store has not returned from.",
		func(s store.GuardStats, o observer) { o.count(s.Pending) },
	},
}

func whether(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Leases observes how much is served from prefetched tokens.
func (m *Metrics) Leases(name string, l *store.Leases) error {
	return register(m, "Leases", name, l, ofLeases, (*store.Leases).Stats)
}

var ofLeases = []reading[store.LeasesStats]{
	{
		counter, "throttle.leases.store_calls", "{call}", "Calls to the Store.",
		func(s store.LeasesStats, o observer) { o.count(s.Calls) },
	},
	{
		counter, "throttle.leases.local_takes", "{take}", "Takes served by prefetched tokens, without the Store.",
		func(s store.LeasesStats, o observer) { o.count(s.Local) },
	},
}

// InFlight observes a keyed semaphore, all keys together.
func (m *Metrics) InFlight(name string, f *store.InFlight) error {
	return register(m, "InFlight", name, f, ofInFlight, (*store.InFlight).Stats)
}

var ofInFlight = []reading[store.InFlightStats]{
	{
		upDown, "throttle.in_flight.holds", "{hold}", "Holds, which count the requests in flight.",
		func(s store.InFlightStats, o observer) { o.count(int64(s.Holds)) },
	},
	{
		gauge, "throttle.in_flight.peak_holds", "{hold}", "The most Holds so far.",
		func(s store.InFlightStats, o observer) { o.number(float64(s.Peak)) },
	},
	{
		upDown, "throttle.in_flight.keys", "{key}", "Keys with requests in flight.",
		func(s store.InFlightStats, o observer) { o.count(int64(s.Keys)) },
	},
	{
		counter, "throttle.in_flight.expired_holds", "{hold}", "Holds that were never released, and expired after MaxAge.",
		func(s store.InFlightStats, o observer) { o.count(s.Reclaimed) },
	},
	{
		counter, "throttle.in_flight.refused_keys", "{key}", "New keys refused because of MaxKeys.",
		func(s store.InFlightStats, o observer) { o.count(s.Full) },
	},
}

// Redis observes the Stats of s: fail-overs, flushes, full memory and the clock.
// Names are shared with [Metrics.SQL].
func (m *Metrics) Redis(name string, s *throttleredis.Store) error {
	return register(m, "Store", name, s, ofRedis, (*throttleredis.Store).Stats)
}

// SQL observes the Stats of s: losses and the clock. Names are shared with
// [Metrics.Redis].
func (m *Metrics) SQL(name string, s *throttlesql.Store) error {
	return register(m, "Store", name, s, ofSQL, (*throttlesql.Store).Stats)
}

var ofRedis = []reading[throttleredis.Stats]{
	losses(func(s throttleredis.Stats, o observer) {
		o.count(s.Replaced, keyReason.String("replaced"))
		o.count(s.Flushed, keyReason.String("flushed"))
	}),
	{
		counter, "throttle.store.full", "{call}", "Calls that Redis refused because its memory was full.",
		func(s throttleredis.Stats, o observer) { o.count(s.Full) },
	},
	clock(func(s throttleredis.Stats) time.Duration { return s.Ahead }),
}

var ofSQL = []reading[throttlesql.Stats]{
	losses(func(s throttlesql.Stats, o observer) { o.count(s.Lost, keyReason.String("lost")) }),
	clock(func(s throttlesql.Stats) time.Duration { return s.Ahead }),
}

func losses[S any](read func(S, observer)) reading[S] {
	return reading[S]{
		counter, "throttle.store.losses", "{loss}",
		"Times that what was taken was lost, or may have been: Redis replaced (fail-over, restart) or flushed; PostgreSQL lost (crash, promoted standby).",
		read,
	}
}

func clock[S any](ahead func(S) time.Duration) reading[S] {
	return reading[S]{
		gauge, "throttle.store.clock.ahead", "s",
		"How far the clock of the Store was ahead of this process at its last answer, plus the time that answer took.",
		func(s S, o observer) { o.time(ahead(s)) },
	}
}
